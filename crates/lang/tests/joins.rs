//! Tests of joins of a stream with views and tables: their plans, or their errors.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail as tests do")]

mod common;

use common::NOW;
use swiftwater_event::Type;
use swiftwater_lang::{Dialect, Joined, ParseOptions, Schema, joined_names, parse, parse_typed};

fn joined(name: &str, id: u64, key: Option<Vec<Option<usize>>>, columns: &[(&str, Type)]) -> Joined {
    let columns = columns.iter().map(|(name, ty)| ((*name).into(), ty.clone())).collect();
    Joined { name: name.into(), id, key, columns }
}

fn all() -> Vec<Joined> {
    vec![
        joined(
            "users",
            1,
            Some(vec![Some(0)]),
            &[
                ("id", Type::LONG),
                ("name", Type::STRING),
                ("country", Type::STRING),
                ("address", Type::map(Type::STRING).unwrap()),
            ],
        ),
        joined(
            "pairs",
            2,
            Some(vec![Some(1), Some(0)]),
            &[("b", Type::LONG), ("a", Type::STRING), ("n", Type::LONG)],
        ),
        joined("hidden", 3, Some(vec![None]), &[("n", Type::LONG)]),
        joined(
            "rollup",
            7,
            Some(vec![Some(0), None, None]),
            &[("window_start", Type::LONG), ("n", Type::LONG)],
        ),
        joined("total", 4, Some(Vec::new()), &[("n", Type::LONG)]),
        joined(
            "days",
            5,
            Some(vec![Some(0)]),
            &[("day", Type::parse("TIMESTAMP").unwrap()), ("rate", Type::DOUBLE)],
        ),
        joined("shops", 6, None, &[("id", Type::LONG), ("kind", Type::STRING), ("city", Type::STRING)]),
    ]
}

/// The plan of a query as EXPLAIN shows it, its lines joined by ` | `, or its first fault with line and column.
#[track_caller]
fn plans(text: &str, expected: &str) {
    let all = all();
    let options = ParseOptions { joined: Some(&all), ..ParseOptions::new(Dialect::Native, NOW) };
    let told = match parse(text, &options) {
        Ok(statement) => statement.query.to_string().replace('\n', " | "),
        Err(errors) => {
            let error = &errors.0[0];
            format!("{}:{}: {}", error.line.unwrap_or(0), error.column.unwrap_or(0), error.message)
        }
    };
    assert_eq!(told, expected, "{text}");
}

#[track_caller]
fn hint(text: &str, expected: &str) {
    let all = all();
    let options = ParseOptions { joined: Some(&all), ..ParseOptions::new(Dialect::Native, NOW) };
    let errors = parse(text, &options).unwrap_err();
    assert_eq!(errors.0[0].hint.as_deref(), Some(expected), "{text}");
}

#[test]
fn a_view_is_joined_by_its_whole_key() {
    let users = "views join view users on id = swiper";
    plans(
        "SELECT u.country, COUNT(*) AS n FROM STREAM(swipes) AS s JOIN users AS u ON s.swiper = u.id GROUP BY u.country",
        &format!(
            "stream swipes | {users} | keys #0 = #2 | aggregates #1 = COUNT(*) | columns country = #0, n = #1"
        ),
    );
    plans(
        "SELECT s.swiper, u.name FROM STREAM(swipes) AS s LEFT JOIN users AS u ON u.id = s.swiper WHERE u.country = 'DE'",
        "stream swipes | views left join view users on id = swiper | where #2 = 'DE' | columns swiper = swiper, name = #1",
    );
    plans(
        "SELECT swiper, users.name AS who FROM STREAM(swipes) INNER JOIN users ON users.id = swipes.swiper",
        &format!("stream swipes | {users} | columns swiper = swiper, who = #1"),
    );
    plans(
        "SELECT p.n FROM STREAM() s LEFT OUTER JOIN pairs p ON (p.a = 'x' AND x + 1 = p.b)",
        "default stream | views left join view pairs on a = 'x' and b = x + 1 | columns n = #2",
    );
    plans(
        "SELECT t.n FROM STREAM() JOIN total AS t ON TRUE",
        "default stream | views join view total | columns n = #0",
    );
    plans(
        "SELECT u.address.city FROM STREAM() JOIN users AS u ON u.id = id.x",
        "1:63: `id` may be a field of the event or a column of `u`",
    );
    plans(
        "SELECT u.address.city FROM STREAM() JOIN users AS u ON u.id = x ORDER BY u.name",
        "default stream | views join view users on id = x | columns u.address.city = #3['city'] | order by #1",
    );
}

#[test]
fn a_table_is_joined_by_any_of_its_columns() {
    plans(
        "SELECT h.city FROM STREAM(v) AS e JOIN shops AS h ON h.kind = 'bar' AND h.id = e.shop",
        "stream v | views join table shops on id = shop and kind = 'bar' | columns city = #2",
    );
    plans("SELECT h.city FROM STREAM(v) JOIN shops h ON TRUE", "1:46: ON names no column of `shops`");
}

#[test]
fn joins_follow_one_another_and_lateral_views() {
    plans(
        "SELECT u.name, h.city FROM STREAM(v) AS e LATERAL VIEW EXPLODE(shops) AS shop JOIN users u ON u.id = e.user \
         LEFT JOIN shops h ON h.id = shop AND h.city = u.address['city'] WHERE shop > 5 AND e.n = 1",
        "stream v | views shops as shop, join view users on id = user, \
         left join table shops on id = #0 and city = #4['city'] | where #0 > 5 AND n = 1 | columns name = #2, city = #7",
    );
    plans(
        "SELECT a.name AS x, b.name AS y FROM STREAM(v) e JOIN users a ON a.id = e.x JOIN users b ON b.id = e.y",
        "stream v | views join view users on id = x, join view users on id = y | columns x = #1, y = #5",
    );
    plans(
        "SELECT b.name FROM STREAM(v) e JOIN users a ON a.id = b.id JOIN users b ON b.id = e.y",
        "1:55: `b` is joined only after this condition",
    );
}

#[test]
fn all_columns_are_those_of_the_event_and_of_what_is_joined_behind_its_name() {
    plans(
        "SELECT * FROM STREAM(v) JOIN total t ON TRUE",
        "stream v | views join view total | the event itself | columns t.n = #0",
    );
}

#[test]
fn a_time_of_an_event_is_wanted_as_one_where_it_is_compared_with_one() {
    let all = all();
    let options = ParseOptions { joined: Some(&all), ..ParseOptions::new(Dialect::Native, NOW) };
    let query = parse("SELECT d.rate FROM STREAM() JOIN days d ON d.day = ts", &options).unwrap().query;
    let paths: Vec<String> = query.paths().into_iter().map(|(path, ty)| format!("{path} {ty}")).collect();
    assert_eq!(paths, ["ts TIMESTAMP"]);
}

#[test]
fn columns_of_what_is_joined_have_its_types() {
    let all = all();
    let schema = Schema::from_json(r#"{"swiper": "LONG"}"#).unwrap();
    let options =
        ParseOptions { joined: Some(&all), schema: Some(&schema), ..ParseOptions::new(Dialect::Native, NOW) };
    let text = "SELECT u.country, MAX(u.id) AS top, SUM(s.swiper) AS n, u.address.x AS x \
                FROM STREAM() AS s JOIN users AS u ON u.id = s.swiper GROUP BY u.country, u.address.x";
    let (_, columns) = parse_typed(text, &options).unwrap();
    let told: Vec<String> = columns.unwrap().iter().map(|(name, ty)| format!("{name} {ty}")).collect();
    assert_eq!(told, ["country STRING", "top LONG", "n LONG", "x STRING"]);
    let (_, columns) =
        parse_typed("SELECT u.name FROM STREAM() JOIN users AS u ON u.id = x", &options).unwrap();
    assert_eq!(columns.unwrap(), [("name".into(), Type::STRING)]);
}

#[test]
fn faults_say_where_and_what_to_do() {
    let on = |on: &str| format!("SELECT u.name FROM STREAM(s)\nJOIN users AS u ON {on}");
    for (text, expected) in [
        (on("u.name = x"), "2:20: ON lacks `id`, which is part of the key of view `users`"),
        (on("u.id = x AND u.name = 'a'"), "2:20: `name` is not part of the key of view `users`"),
        (on("u.id > x"), "2:20: ON may contain only equalities of columns"),
        (on("u.id = x OR u.id = y"), "2:20: ON may contain only equalities of columns"),
        (on("x = y"), "2:20: neither side of this is a column of `u`"),
        (on("u.id = u.name"), "2:20: both sides of this are columns of `u`"),
        (on("u.id = x AND u.id = y"), "2:33: `id` occurs twice in ON"),
        (on("u.idd = x"), "2:22: view `users` has no column `idd`"),
        (on("u.id = COUNT(*)"), "2:27: an aggregate is not allowed here"),
        (on(""), "2:20: expected an expression, found the end of the query"),
        (
            "SELECT 1 FROM STREAM() JOIN user ON user.id = 1".to_owned(),
            "1:29: there is no view or table `user`",
        ),
        (
            "SELECT 1 FROM STREAM() JOIN hidden h ON h.n = 1".to_owned(),
            "1:29: view `hidden` does not select all values of its key",
        ),
        (
            "SELECT 1 FROM STREAM() JOIN rollup r ON r.n = 1".to_owned(),
            "1:29: view `rollup` does not select all values of its key",
        ),
        (
            "SELECT u FROM STREAM() JOIN users u ON u.id = x".to_owned(),
            "1:8: `u` is the name of a whole row or event",
        ),
        (
            "SELECT u.x FROM STREAM() JOIN users u ON u.id = x".to_owned(),
            "1:10: view `users` has no column `x`",
        ),
        (
            "SELECT u.id FROM STREAM() u JOIN users u ON u.id = x".to_owned(),
            "1:40: two sources are named `u`",
        ),
        (
            "SELECT u.id, COUNT(*) FROM STREAM() JOIN users u ON u.id = x GROUP BY u.name".to_owned(),
            "1:8: `u.id` is neither a key of the groups nor within an aggregate",
        ),
        (
            "SELECT 1 FROM STREAM() RIGHT JOIN users u ON u.id = x".to_owned(),
            "1:24: RIGHT JOIN is not a join of events",
        ),
        ("SELECT 1 FROM STREAM() CROSS JOIN users u".to_owned(), "1:24: CROSS JOIN is not a join of events"),
        ("SELECT 1 FROM STREAM() LEFT users u".to_owned(), "1:29: expected JOIN, found `users`"),
        (
            "SELECT 1 FROM STREAM() JOIN (SELECT 1) u ON u.id = x".to_owned(),
            "1:29: expected the name of a view or table, found `(`",
        ),
        ("SELECT 1 FROM STREAM() JOIN users u WHERE x = 1".to_owned(), "1:37: expected ON, found `WHERE`"),
        (
            "SELECT 1 FROM STREAM() WHERE x = 1 JOIN users u ON u.id = x".to_owned(),
            "1:36: JOIN must come before WHERE",
        ),
        (
            "SELECT 1 FROM (SELECT 1 FROM STREAM()) JOIN users u ON u.id = x".to_owned(),
            "1:40: JOIN belongs to the inner query",
        ),
        (
            "SELECT 1 FROM STREAM(a) JOIN users u ON u.id = x JOIN STREAM(b) ON x = y".to_owned(),
            "1:55: a join of streams is not supported yet",
        ),
        (
            "SELECT u.id, v.id FROM STREAM() JOIN users u ON u.id = x JOIN users v ON v.id = y".to_owned(),
            "1:14: two columns are named `id`",
        ),
    ] {
        plans(&text, expected);
    }
    hint(&on("u.name = x"), "A view is joined by its whole key: `id`.");
    hint(&on("u.idd = x"), "Did you mean `id`?");
    hint("SELECT name FROM STREAM(s) JOIN users u ON u.id = x", "Write `u.name` or `s.name`.");
    hint(
        "SELECT name FROM STREAM() JOIN users u ON u.id = x",
        "Write `u.name`, or name the stream with AS for the other.",
    );
}

#[test]
fn a_stream_has_a_name_without_joins_too() {
    plans("SELECT s.a FROM STREAM(x) AS s WHERE s.b > 1", "stream x | where b > 1 | columns a = a");
    plans("SELECT x.a FROM STREAM(x) WHERE x.b > 1", "stream x | where x.b > 1 | columns x.a = x.a");
}

#[test]
fn where_nothing_is_stored_nothing_can_be_joined() {
    let text = "SELECT 1 FROM STREAM() JOIN users u ON u.id = x";
    let errors = parse(text, &ParseOptions::new(Dialect::Native, NOW)).unwrap_err();
    assert_eq!(errors.0[0].message, "this server has no views and tables to join with");
    assert_eq!(errors.0[0].column, Some(29));
    assert!(parse(text, &ParseOptions::new(Dialect::Bullet, NOW)).is_err());
}

#[test]
fn what_is_joined_is_told_before_planning() {
    let options = ParseOptions::new(Dialect::Native, NOW);
    let names = |text: &str| joined_names(text, &options).join(", ");
    assert_eq!(
        names("SELECT a.x FROM STREAM(s) JOIN b a ON a.x = y LEFT JOIN c ON c.x = 1 JOIN b ON b.x = 2"),
        "b, c"
    );
    assert_eq!(names("SELECT * FROM (SELECT a.x FROM STREAM(s) JOIN b a ON a.x = y)"), "b");
    assert_eq!(names("SELECT \"join\" FROM STREAM(s)"), "");
    assert_eq!(names("SELECT FROM join"), "");
}
