//! Tests of the statements of search indexes.

use proptest::{option, prelude::*, sample::select};
use swiftwater_text::{AnalyzerOptions, FacetIndex, IdIndex, LANGUAGES};

use super::*;
use crate::ddl::{
    Ddl,
    tests::{check, name, read},
};

fn create(text: &str) -> CreateSearchIndex {
    match read(text) {
        Ok(Some(Ddl::CreateSearchIndex(create))) => create,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn search_indexes_are_declared() {
    check(
        "create search index if not exists on logs (message text, title Text boost 3, trace_id id correlation, host ID, \
         category facet '/', *) with (DEFAULT = (message, title));",
        "CREATE SEARCH INDEX IF NOT EXISTS ON logs (\n  message TEXT,\n  title TEXT BOOST 3,\n  trace_id ID CORRELATION,\n  \
         host ID,\n  category FACET '/',\n  *\n) WITH (default = (message, title))",
    );
    check(
        "CREATE SEARCH INDEX ON logs (body TEXT (stem = 'English', fold = accents, split = code, positions = false))",
        "CREATE SEARCH INDEX ON logs (\n  body TEXT (stem = 'english', fold = accents, split = code, positions = false)\n)",
    );
    check("CREATE SEARCH INDEX ON \"a-b\" (*)", "CREATE SEARCH INDEX ON \"a-b\" (\n  *\n)");
    // Defaults are not printed, and the kinds of a column are listed together.
    check(
        "CREATE SEARCH INDEX ON t (a FACET, b TEXT (stem = none, fold = none, split = none, positions = TRUE) BOOST 1.0, \
         a ID, a TEXT (stem = dutch) BOOST 0.25)",
        "CREATE SEARCH INDEX ON t (\n  a TEXT (stem = 'dutch') BOOST 0.25,\n  a ID,\n  a FACET,\n  b TEXT\n)",
    );
    // A column is the same in any letter case.
    check(
        "CREATE SEARCH INDEX ON t (Title TEXT, TITLE ID) WITH (default = title)",
        "CREATE SEARCH INDEX ON t (\n  Title TEXT,\n  Title ID\n) WITH (default = (Title))",
    );
    // Its words are names elsewhere.
    check(
        "CREATE SEARCH INDEX ON index (text TEXT, id ID, facet FACET, boost TEXT BOOST 2, correlation ID, search TEXT, \
         \"select\" TEXT) WITH (default = text)",
        "CREATE SEARCH INDEX ON index (\n  text TEXT,\n  id ID,\n  facet FACET,\n  boost TEXT BOOST 2,\n  correlation ID,\n  \
         \"search\" TEXT,\n  \"select\" TEXT\n) WITH (default = (text))",
    );
    check("DROP SEARCH INDEX IF EXISTS ON logs", "DROP SEARCH INDEX IF EXISTS ON logs");
    check("DROP SEARCH INDEX ON logs;", "DROP SEARCH INDEX ON logs");
    check("show search indexes", "SHOW SEARCH INDEXES");
    check("show create search index on logs", "SHOW CREATE SEARCH INDEX ON logs");
    check("DESC SEARCH INDEX ON logs;", "DESCRIBE SEARCH INDEX ON logs");
    check("DESCRIBE search", "DESCRIBE \"search\"");
    check("SHOW search", "none of ours");
    check("CREATE INDEX ON logs (message)", "none of ours");
}

#[test]
fn search_indexes_are_altered() {
    check(
        "alter search index on logs add body TEXT (stem = 'english', fold = accents), drop title",
        "ALTER SEARCH INDEX ON logs ADD body TEXT (stem = 'english', fold = accents), DROP title",
    );
    check(
        "ALTER SEARCH INDEX ON logs DROP text TEXT, DROP id, ADD *, DROP *, SET (default = (a, b)), RESET (default)",
        "ALTER SEARCH INDEX ON logs DROP text TEXT, DROP id, ADD *, DROP *, SET (default = (a, b)), RESET (default)",
    );
    check(
        "ALTER SEARCH INDEX ON logs REBUILD FROM '2026-01-01' TO '2026-02-01T00:00:00+01:00'",
        "ALTER SEARCH INDEX ON logs REBUILD FROM '2026-01-01' TO '2026-02-01T00:00:00+01:00'",
    );
    check("alter search index on rebuild rebuild;", "ALTER SEARCH INDEX ON rebuild REBUILD");
    check(
        "ALTER SEARCH INDEX ON a REBUILD TO '2026-01-01'",
        "ALTER SEARCH INDEX ON a REBUILD TO '2026-01-01'",
    );
    let rebuild = read("ALTER SEARCH INDEX ON a REBUILD FROM '1970-01-02'");
    let Ok(Some(Ddl::RebuildSearchIndex(rebuild))) = rebuild else { panic!("{rebuild:?}") };
    assert_eq!(
        rebuild.from.map(|bound| bound.micros),
        Some(86_400_000_000),
        "a day begins at midnight in UTC"
    );
}

#[test]
fn faults_have_a_place_and_a_hint() {
    for (text, fault) in [
        ("CREATE SERACH INDEX ON a (*)", "1:8 there is no CREATE SERACH (Did you mean CREATE SEARCH INDEX?)"),
        ("CREATE SEARCH INDX ON a (*)", "1:15 expected INDEX, found `INDX` (Did you mean INDEX?)"),
        (
            "CREATE SEARCH INDEX i ON a (*)",
            "1:21 expected ON, found `i` (A search index has the name of its stream or table: write ON and that name.)",
        ),
        (
            "CREATE OR REPLACE SEARCH INDEX ON a (*)",
            "1:8 an object with data cannot be replaced (Write CREATE … IF NOT EXISTS, or ALTER the existing object.)",
        ),
        (
            "CREATE SEARCH INDEX ON a",
            "1:25 expected `(`, found the end of the query (List the columns in parentheses, (message TEXT, host ID), or \
             (*) for all with text.)",
        ),
        ("CREATE SEARCH INDEX ON a ()", "1:27 expected a column, or `*`, found `)`"),
        (
            "CREATE SEARCH INDEX ON a (b, c TXT, d ID FACET, e TEXT)",
            "1:28 expected TEXT, ID or FACET, found `,` (State the kind of column `b`: TEXT, ID or FACET.); \
             1:32 expected TEXT, ID or FACET, found `TXT` (Did you mean TEXT?); 1:42 expected `,` or `)`, found `FACET`",
        ),
        (
            "CREATE SEARCH INDEX ON a (b TEXT, b ID, b TEXT BOOST 2)",
            "1:41 column `b` is indexed as TEXT already (Each kind is listed once. ALTER … DROP b, ADD b … changes its \
             options.)",
        ),
        ("CREATE SEARCH INDEX ON a (*, *)", "1:30 `*` is listed twice"),
        (
            "CREATE SEARCH INDEX ON a (b.c TEXT)",
            "1:28 expected TEXT, ID or FACET, found `.` (An index covers whole columns: write `b TEXT`; searches name \
             paths into it.)",
        ),
        (
            "CREATE SEARCH INDEX ON a (b TEXT (stme = 'english'))",
            "1:35 no option `stme` (Did you mean `stem`?)",
        ),
        (
            "CREATE SEARCH INDEX ON a (b TEXT (stem = 'englisch', fold = accent, split = 1, positions = flase))",
            "1:42 no language `englisch` (Did you mean 'english'?); 1:61 `fold` must be accents or none (Did you mean \
             accents?); 1:77 `split` must be code or none; 1:92 `positions` must be true or false (Did you mean false?)",
        ),
        (
            "CREATE SEARCH INDEX ON a (b TEXT (stem = klingon))",
            "1:42 no language `klingon` (Languages are arabic, danish, dutch, english, finnish, french, german, greek, \
             hungarian, italian, norwegian, portuguese, romanian, russian, spanish, swedish, tamil, turkish.)",
        ),
        (
            "CREATE SEARCH INDEX ON a (b TEXT (stem = 5))",
            "1:42 `stem` must be a language such as 'english', or none",
        ),
        (
            "CREATE SEARCH INDEX ON a (b TEXT BOOST 0)",
            "1:40 expected a number above 0 and at most 1000, found `0`",
        ),
        (
            "CREATE SEARCH INDEX ON a (b TEXT BOOST 1001)",
            "1:40 expected a number above 0 and at most 1000, found `1001`",
        ),
        (
            "CREATE SEARCH INDEX ON a (b TEXT BOOST x)",
            "1:40 expected a number above 0 and at most 1000, found `x`",
        ),
        (
            "CREATE SEARCH INDEX ON a (b FACET '')",
            "1:35 the separator of a FACET has 1 to 16 bytes (Write FACET '/', or FACET for values without paths.)",
        ),
        (
            "CREATE SEARCH INDEX ON a (b TEXT, c ID) WITH (default = (b, c))",
            "1:57 default column `c` is not indexed as TEXT (List `c TEXT`, or name other columns in `default`.)",
        ),
        ("CREATE SEARCH INDEX ON a (*) WITH (default = (b, b))", "1:46 `default` names `b` twice"),
        ("CREATE SEARCH INDEX ON a (*) WITH (default = 5)", "1:46 `default` must be columns in parentheses"),
        (
            "CREATE SEARCH INDEX ON a (*) WITH (defualt = (b))",
            "1:36 no option `defualt` (Did you mean `default`?)",
        ),
        (
            "ALTER SEARCH INDEX ON a ADD b TEXT, RENAME c",
            "1:37 expected ADD, DROP, SET, RESET or REBUILD, found `RENAME`",
        ),
        (
            "ALTER SEARCH INDEX ON a REBUILD FROM '2026-02-01' TO '2026-01-01'",
            "1:33 the end of the range is not behind its start (The range includes FROM and ends before TO.)",
        ),
        (
            "ALTER SEARCH INDEX ON a REBUILD FROM 'yesterday'",
            "1:38 `yesterday` is not a time (Write a day, '2026-01-31', or a time, '2026-01-31T12:00:00Z'.)",
        ),
        (
            "ALTER SEARCH INDEX ON a REBUILD FROM '2026-02-30'",
            "1:38 `2026-02-30` is not a time (Write a day, '2026-01-31', or a time, '2026-01-31T12:00:00Z'.)",
        ),
        ("ALTER SEARCH INDEX ON a REBUILD '2026-02-01'", "1:33 expected FROM or TO, found `'2026-02-01'`"),
        ("SHOW SEARCH INDICES", "1:13 expected INDEXES, found `INDICES` (Did you mean INDEXES?)"),
    ] {
        check(text, fault);
    }
    let many: Vec<String> = (0..=SEARCH_COLUMNS_MAX).map(|n| format!("c{n} ID")).collect();
    check(
        &format!("CREATE SEARCH INDEX ON a ({})", many.join(", ")),
        "1:26 a search index declares at most 256 columns (`*` covers any number of columns with text.)",
    );
}

/// Checks the definition after the changes of a statement, or the error with its hint.
fn altered(before: &str, changes: &str, expected: &str) {
    let before = create(&format!("CREATE SEARCH INDEX ON a ({before}"));
    let alter = match read(&format!("ALTER SEARCH INDEX ON a {changes}")) {
        Ok(Some(Ddl::AlterSearchIndex(alter))) => alter,
        other => panic!("{changes}: {other:?}"),
    };
    let after = match before.altered(&alter.changes) {
        Ok(after) => {
            let text = after.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
            text.replace("CREATE SEARCH INDEX ON a ", "")
        }
        Err(error) => format!("{error} ({})", error.hint().unwrap_or_default()),
    };
    assert_eq!(after, expected, "{changes}");
}

#[test]
fn changes_apply_in_order_and_as_a_whole() {
    altered("b TEXT)", "ADD c ID, ADD b FACET", "( b TEXT, b FACET, c ID )");
    altered("b TEXT)", "DROP b, ADD b TEXT BOOST 2", "( b TEXT BOOST 2 )");
    altered("b TEXT, b ID)", "DROP B TEXT", "( b ID )");
    altered("*)", "ADD b ID, DROP *", "( b ID )");
    altered(
        "b TEXT, c TEXT) WITH (default = b)",
        "SET (default = (c))",
        "( b TEXT, c TEXT ) WITH (default = (c))",
    );
    altered("b TEXT, c TEXT) WITH (default = b)", "DROP b, RESET (default)", "( c TEXT )");
    altered(
        "b TEXT, c TEXT) WITH (default = b)",
        "DROP b",
        "default column `b` is not indexed as TEXT (List `b TEXT`, or name other columns in `default`.)",
    );
    altered(
        "b TEXT)",
        "DROP b",
        "a search index covers at least one column (DROP SEARCH INDEX drops the whole index.)",
    );
    altered(
        "message TEXT)",
        "DROP mesage",
        "the search index has no column `mesage` (Did you mean `message`?)",
    );
    altered(
        "b TEXT)",
        "DROP b ID",
        "the search index has no column `b` of kind ID (DESCRIBE SEARCH INDEX lists its columns.)",
    );
    altered(
        "b TEXT)",
        "ADD b TEXT",
        "column `b` is indexed as TEXT already (Each kind is listed once. ALTER … DROP b, ADD b … changes its options.)",
    );
    altered("*)", "ADD *", "the search index covers `*` already ()");
    altered("b TEXT)", "DROP *", "the search index does not cover `*` ()");
}

fn any_index() -> impl Strategy<Value = ColumnIndex> {
    let analyzer =
        (option::of(select(LANGUAGES.map(|(_, language)| language).to_vec())), any::<bool>(), any::<bool>())
            .prop_map(|(stem, fold_accents, split_code)| AnalyzerOptions { stem, fold_accents, split_code });
    let boost = prop_oneof![Just(1.0_f32), 1e-30_f32..1e-3, 1e-3_f32..swiftwater_text::BOOST_MAX];
    let text = (analyzer, boost, any::<bool>()).prop_map(|(analyzer, boost, has_positions)| TextIndex {
        analyzer,
        boost,
        has_positions,
    });
    let id = any::<bool>().prop_map(|is_correlation| IdIndex { is_correlation });
    let separator = option::of("[/.'漢 ]{1,5}".prop_map(String::into_boxed_str));
    let facet = separator.prop_map(|separator| FacetIndex { separator });
    (option::of(text), option::of(id), option::of(facet))
        .prop_map(|(text, id, facet)| ColumnIndex { text, id, facet, is_default: false })
        .prop_filter("a column has a kind", |index| index.kinds().next().is_some())
}

fn any_definition() -> impl Strategy<Value = SearchDefinition> {
    let column = (
        prop_oneof![name(), select(vec!["text", "ID", "facet", "boost", "default"]).prop_map(str::to_owned)],
        any_index(),
    );
    (prop::collection::vec(column, 0..6), any::<bool>(), any::<u8>()).prop_map(
        |(columns, covers_all, chosen)| {
            let mut definition = SearchDefinition { covers_all, ..SearchDefinition::default() };
            for (column, index) in columns {
                let _ = definition.add(&column, index);
            }
            definition.covers_all |= definition.columns.is_empty();
            let texts = definition.columns.iter().filter(|(_, index)| index.text.is_some());
            let texts: Vec<Box<str>> = texts.map(|(name, _)| name.clone()).collect();
            let chosen = texts.into_iter().enumerate().filter(|(place, _)| chosen >> place & 1 == 1);
            definition.defaults = chosen.map(|(_, name)| name).collect();
            definition
        },
    )
}

proptest! {
    #[test]
    fn normal_form_reads_back_as_the_same(definition in any_definition(), if_not_exists: bool, table in name()) {
        let ddl = Ddl::CreateSearchIndex(CreateSearchIndex { table: table.into(), if_not_exists, definition });
        let text = ddl.to_string();
        prop_assert_eq!(read(&text), Ok(Some(ddl)), "{}", text);
    }

    #[test]
    fn changes_read_back_and_lead_from_one_definition_to_another(before in any_definition(), after in any_definition()) {
        let mut changes: Vec<SearchIndexChange> = after.columns.iter().flat_map(|(column, index)| {
            let index = index.clone();
            IndexKind::ALL.into_iter().filter(move |kind| index.has(*kind)).map({
                let (column, index) = (column.clone(), after.columns.iter().find(|(name, _)| name == column).unwrap().1.clone());
                move |kind| {
                    let mut one = index.clone();
                    IndexKind::ALL.into_iter().filter(|other| *other != kind).for_each(|other| one.remove(other));
                    SearchIndexChange::Add { column: column.clone(), index: one }
                }
            })
        }).collect();
        let drops = before.columns.iter().map(|(column, _)| SearchIndexChange::Drop { column: column.clone(), kind: None });
        changes.splice(0..0, drops);
        match (before.covers_all, after.covers_all) {
            (false, true) => changes.push(SearchIndexChange::AddAll),
            (true, false) => changes.push(SearchIndexChange::DropAll),
            _ => {}
        }
        changes.push(match after.defaults.is_empty() {
            true => SearchIndexChange::ResetDefaults,
            false => SearchIndexChange::SetDefaults(after.defaults.clone()),
        });
        let ddl = Ddl::AlterSearchIndex(AlterSearchIndex { table: "t".into(), changes: changes.clone() });
        let text = ddl.to_string();
        prop_assert_eq!(read(&text), Ok(Some(ddl)), "{}", text);
        let index = |definition| CreateSearchIndex { table: "t".into(), if_not_exists: false, definition };
        prop_assert_eq!(index(before).altered(&changes), Ok(index(after)));
    }

    #[test]
    fn no_text_panics(words in prop::collection::vec(select(vec![
        "(", ")", ",", "a", "text", "TEXT", "ID", "FACET", "BOOST", "CORRELATION", "'/'", "*", "WITH", "=", "default", "stem",
        "'english'", "fold", "accents", "3", "0.5", "-", ";", "ADD", "DROP", "SET", "RESET", "REBUILD", "FROM", "TO",
        "'2026-01-01'", "ON", "IF", "EXISTS", "NOT", "\"", "é", ".", "INDEX",
    ]), 0..14), start in 0usize..5) {
        let head = [
            "CREATE SEARCH INDEX ON t (",
            "CREATE SEARCH INDEX ",
            "ALTER SEARCH INDEX ON t ",
            "CREATE SEARCH INDEX ON t (a TEXT (",
            "DROP SEARCH ",
        ][start];
        let text = format!("{head} {}", words.join(" "));
        if let Ok(Some(ddl)) = read(&text) {
            prop_assert_eq!(read(&ddl.to_string()), Ok(Some(ddl)), "{}", text);
        }
    }
}
