//! Each form of the search language: what it finds, and the faults of what is written wrongly.

use std::sync::Arc;

use swiftwater_text::{
    Analyzer, AnalyzerOptions, Language, Matcher, MatcherScratch, QueryFaults, SearchColumn, SearchColumns,
    SearchRow, TextKind, UnknownColumn, Value,
    query::{Number, Operator},
};

/// 2026-01-02T00:00:00Z.
const NOW_MICROS: i64 = 1_767_312_000_000_000;

const COLUMNS: [&str; 9] =
    ["message", "title", "host", "category", "status", "ok", "seen", "attributes.http.method", "code"];

/// The values of each column, in the order of [`COLUMNS`].
struct Row(Vec<Vec<Value<'static>>>);

impl SearchRow for Row {
    fn for_each_value(&self, column: u32, visit: &mut dyn FnMut(Value<'_>)) {
        self.0[column as usize].iter().for_each(|value| visit(*value));
    }
}

struct Columns;

impl SearchColumns for Columns {
    fn defaults(&self) -> Vec<SearchColumn> {
        ["message", "title"].iter().filter_map(|name| self.column(&[Box::from(*name)]).ok()).collect()
    }

    fn column(&self, path: &[Box<str>]) -> Result<SearchColumn, UnknownColumn> {
        let name = path.join(".");
        let found = COLUMNS.iter().position(|column| *column == name);
        let id = found.ok_or_else(|| UnknownColumn {
            message: format!("no column `{name}`"),
            hint: Some("Columns are: message, title, host.".to_owned()),
        })?;
        let kind = match &*name {
            "host" => TextKind::Whole,
            "category" => TextKind::Path { separator: "/".into() },
            _ => TextKind::Words,
        };
        let options = match &*name {
            "title" => {
                AnalyzerOptions { stem: Some(Language::English), fold_accents: true, ..Default::default() }
            }
            "code" => AnalyzerOptions { split_code: true, ..Default::default() },
            _ => AnalyzerOptions::default(),
        };
        Ok(SearchColumn { id: id as u32, kind, analyzer: Arc::new(Analyzer::new(options)), boost: 1.0 })
    }
}

fn row() -> Row {
    Row(vec![
        vec![Value::Text(
            "GET /a.b failed: connection refused by 10.0.0.12 after 1500ms; id 4bf92f35-77b3-4da6-a3ce-929d0e0e4736",
        )],
        vec![Value::Text("Connections to Café"), Value::Text("東京都のサーバー")],
        vec![Value::Text("web-1")],
        vec![Value::Text("books/fiction/crime"), Value::Text("new")],
        vec![Value::Number(Number::Integer(500)), Value::Number(Number::Float(1.5))],
        vec![Value::Boolean(true)],
        // 2026-01-01T12:00:00Z
        vec![Value::Time(NOW_MICROS - 43_200_000_000)],
        vec![Value::Text("GET")],
        vec![Value::Text("getUserName failed")],
    ])
}

fn bound(query: &str, operator: Operator) -> Result<Matcher, QueryFaults> {
    Matcher::new(query, operator, &Columns, Some(NOW_MICROS))
}

fn is_found(query: &str, operator: Operator) -> bool {
    let matcher = bound(query, operator).unwrap_or_else(|faults| panic!("{query}: {faults}"));
    matcher.matches(&row(), &mut MatcherScratch::default())
}

/// Checks which queries find the row and which do not.
fn check(found: &[&str], not_found: &[&str]) {
    for (queries, expected) in [(found, true), (not_found, false)] {
        for query in queries {
            assert_eq!(is_found(query, Operator::And), expected, "{query}");
        }
    }
}

#[test]
fn words_and_operators() {
    check(
        &[
            "",
            "  ",
            "*",
            "*:*",
            "refused",
            "REFUSED connection",
            "refused AND connection",
            "nothing OR refused",
            "refused -nothing",
            "refused NOT nothing",
            "+refused",
            "(nothing OR refused) failed",
            "NOT nothing",
            "nothing OR refused failed",
            "--refused",
            "or OR refused",
            "refused(failed)",
        ],
        &[
            "nothing",
            "refused nothing",
            "NOT refused",
            "-refused",
            "refused AND nothing",
            "or",
            "nothing OR NOT refused",
            "-(refused OR nothing)",
        ],
    );
}

#[test]
fn words_side_by_side_are_joined_as_asked() {
    for (query, expected) in [
        ("refused nothing", true),
        ("nothing nowhere", false),
        ("+nothing refused", false),
        ("+refused nothing", true),
        ("refused -failed", false),
        ("nothing AND refused failed", true),
        ("nothing AND refused nowhere", false),
        ("-nothing", true),
    ] {
        assert_eq!(is_found(query, Operator::Or), expected, "{query}");
    }
}

#[test]
fn phrases() {
    check(
        &[
            "\"connection refused\"",
            "\"Connection, REFUSED\"",
            "\"refused connection\"~2",
            "\"connection by\"~1",
            "\"conn refus\"~1* OR \"connection refus\"*",
            "10.0.0.12",
            "4bf92f35-77b3-4da6-a3ce-929d0e0e4736",
            "\"4bf92f35-77b3-4d\"*",
            "a.b",
            "東京",
            "京都",
            "都",
            "ーバ",
            "\"東京都の\"",
            "東京 サーバー",
            "\"\\\"refused\\\"\"",
        ],
        &[
            "\"refused connection\"",
            "\"refused connection\"~1",
            "\"connection by\"",
            "b.a",
            "東都",
            "\"conn refus\"*",
            "10.0.0.13",
        ],
    );
}

#[test]
fn patterns_within_tokens() {
    check(
        &[
            "conn*",
            "c?nnect*on",
            "*fused",
            "refuzed~1",
            "rafuzed~2",
            "150*",
            "4bf92f35-77b3-4d*",
            "*",
            "東京*",
            "*サーバー*",
        ],
        &["conn", "c?nection", "*fuse", "rafuzed~1", "????????????????", "4bf92f35-77b3-4e*"],
    );
}

#[test]
fn texts_and_expressions() {
    check(
        &[
            "message:=\"GET /a.b\"",
            "message:=/a.b",
            "message:/re(fus|ject)ed/",
            "message:/\\/a\\.b/",
            "message:/(?i)get/",
            "message:/^GET/",
            "status:/^50/",
            "ok:=true",
            "host:=eb-",
            "title:=東京",
        ],
        &["message:=\"get /a.b\"", "message:/rejected/", "message:/^get/", "status:/^40/", "seen:/2026/"],
    );
}

#[test]
fn columns_by_their_type() {
    check(
        &[
            "status:500",
            "status:500.0",
            "status:\"500\"",
            "status:5*",
            "status:>499",
            "status:>=500",
            "status:<2",
            "status:[1 TO 2]",
            "status:[500 TO *]",
            "status:{1.4 TO 1.5]",
            "ok:true",
            "seen:2026-01-01",
            "seen:2026-01-01T12:00:00Z",
            "seen:[2026-01-01 TO now-15m}",
            "seen:>now-1d",
            "seen:<=2026-01-01",
            "seen:>1767225600000",
            "host:web-1",
            "host:web*",
            "host:(a OR web-1)",
            "host:*",
            "host:web-2~1",
            "category:books",
            "category:books/fiction",
            "category:books/fiction/crime",
            "category:new",
            "category:book*",
            "attributes.http.method:GET",
            "attributes.http.method:get",
            "message:refused^2",
            "(refused failed)^0.5",
            "host:[web TO wec]",
            "seen:*",
        ],
        &[
            "status:501",
            "status:<1.5",
            "status:{1.5 TO 1.5]",
            "ok:false",
            "seen:2026-01-02",
            "seen:>2026-01-01",
            "seen:<2026-01-01",
            "seen:[now-1h TO now]",
            "host:web",
            "host:WEB-1",
            "category:fiction",
            "category:book",
            "attributes.http.method:POST",
            "host:(a OR b)",
            "status:refused",
            "ok:1",
            "host:[a TO web]",
            "message:>5",
        ],
    );
}

#[test]
fn stems_accents_and_parts_where_declared() {
    check(
        &[
            "title:connection",
            "title:connecting",
            "title:cafe",
            "title:café",
            "title:\"connect to\"",
            "title:connections*",
            "code:user",
            "code:getUserName",
            "code:getusername",
            "code:\"get user\"",
            "code:\"getUserName failed\"",
            "code:\"user name failed\"",
        ],
        &["title:connector", "message:connections", "message:refuse", "code:username", "code:get.name"],
    );
}

#[test]
fn places_of_matches_are_in_the_original_text() {
    let highlights = |query: &str, column: u32, text: &str| -> Vec<String> {
        let places =
            bound(query, Operator::And).unwrap().highlights(column, text, &mut MatcherScratch::default());
        places.into_iter().map(|place| text[place].to_owned()).collect()
    };
    for (query, text, expected) in [
        ("refused", "Refused! refused", &["Refused", "refused"][..]),
        ("\"connection refused\"", "connection: refused, refused", &["connection", "refused"]),
        ("\"a b\"~3", "b x a c", &["b", "a"]),
        ("cafe\u{301}", "un Cafe\u{301}.", &["Cafe\u{301}"]),
        ("京都", "東京都庁", &["京都"]),
        ("message:=\"a.b\"", "a.b/a.b", &["a.b", "a.b"]),
        ("message:/[0-9]+/", "x12y3", &["12", "3"]),
        ("a -b (c OR d)", "a b c", &["a", "c"]),
        ("fil*", "ﬁle 東京", &["ﬁle"]),
        ("東京都", "東京都", &["東京都"]),
    ] {
        assert_eq!(highlights(query, 0, text), expected, "{query} in {text}");
    }
}

#[test]
fn all_faults_are_told_with_their_places() {
    for (query, expected) in [
        ("a OR", "character 5: `OR` has nothing after it"),
        ("OR a", "character 1: `OR` comes where a condition is expected"),
        ("a AND", "character 6: `AND` has nothing after it"),
        ("a (b", "character 3: `(` is not closed"),
        ("a )b", "character 3: `)` closes nothing"),
        ("()", "character 2: `)` comes where a condition is expected"),
        ("\"a b", "character 1: `\"` is not closed"),
        ("a - b", "character 3: `-` has nothing after it"),
        ("nope:1 OR", "character 1: no column `nope`; character 10: `OR` has nothing after it"),
        ("nope:1 also:2", "character 1: no column `nope`; character 8: no column `also`"),
        ("message: x", "character 9: a value is expected after `message:`"),
        ("message:/a(/", "character 1: the regular expression cannot be read: unclosed group"),
        ("message:/a(?=b)/", "character 1: regular expressions cannot look around"),
        ("message:/a", "character 9: the expression after `/` is not closed"),
        ("message:/a/b", "character 12: `b` follows directly"),
        ("status:[1 2]", "character 8: the range cannot be read"),
        ("status:[1 TO x]", "character 1: the bounds of the range are of different types"),
        ("status:>", "character 9: a value is expected after `>`"),
        ("a~", "character 2: `~` after a word needs the number of differing characters, 1 or 2"),
        ("a~3", "character 2: `~` after a word needs the number of differing characters, 1 or 2"),
        ("a.b~1", "character 1: `a.b` is not one word, and `~` is for one word"),
        ("\"a b\"~101", "character 6: the slop of a phrase is at most 100"),
        ("--- x", "character 3: `-` has nothing after it"),
        ("\"--\"", "character 1: `--` has no letters or digits"),
        ("東*都", "character 1: `東*都` has a wildcard within a text without spaces"),
        ("a^0", "character 2: `^` needs a positive number"),
        ("host:\"web 1\"~2", "character 1: a column that is compared as a whole has no words to displace"),
        ("\u{e9} nope:1", "character 3: no column `nope`"),
    ] {
        let faults = bound(query, Operator::And).map(|_| ()).unwrap_err();
        assert_eq!(faults.to_string(), expected, "{query}");
    }
}

#[test]
fn limits_refuse_what_is_too_large() {
    let fault = |query: &str| bound(query, Operator::And).map(|_| ()).unwrap_err().to_string();
    assert_eq!(fault(&"a ".repeat(1025)), "character 1: the query has 1025 conditions, limit is 1024");
    assert!(is_found(&"refused ".repeat(1024), Operator::And));
    let nested = |depth: usize| format!("{}refused{}", "(".repeat(depth), ")".repeat(depth));
    assert!(is_found(&nested(64), Operator::And));
    assert_eq!(fault(&nested(65)), "character 65: parentheses are nested more than 64 deep");
    assert_eq!(fault(&nested(30_000)), "character 65: parentheses are nested more than 64 deep");
    let long = format!("\"{}\"", "x".repeat(65_536));
    assert_eq!(fault(&long), "character 1: the query has 65538 bytes, limit is 65536");
    let negated = format!("{}refused", "NOT ".repeat(10_000));
    assert!(is_found(&negated, Operator::And));
}
