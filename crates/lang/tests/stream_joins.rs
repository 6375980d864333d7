//! Tests of stream joins: their normal form, their plans, and their errors with places.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

use swiftwater_lang::{
    Dialect, ParseOptions, QueryErrors,
    ddl::{CreateJoin, CreateStream, Ddl},
    parse, parse_ddl,
    plan::JoinPlan,
};

const ORDERS: &str = "CREATE STREAM orders (id LONG, customer STRING, amount DOUBLE, meta MAP[STRING], \
                      ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5 seconds')";
const PAYMENTS: &str = "CREATE STREAM payments (order_id LONG PATH 'order.id', method STRING, amount DOUBLE, at LONG, \
                        WATERMARK FOR at AS at)";

fn read(text: &str) -> Result<Option<Ddl>, QueryErrors> {
    parse_ddl(text, &ParseOptions::new(Dialect::Native, 0))
}

fn stream(text: &str) -> CreateStream {
    let Ok(Some(Ddl::CreateStream(create))) = read(text) else { panic!("{text}") };
    create
}

fn join(query: &str) -> Result<CreateJoin, QueryErrors> {
    match read(&format!("CREATE JOIN j INTO pairs AS\n{query}"))? {
        Some(Ddl::CreateJoin(create)) => Ok(create),
        other => panic!("{other:?}"),
    }
}

/// The plan of a join of orders and payments, or of orders with themselves.
fn plan(query: &str) -> Result<JoinPlan, QueryErrors> {
    let create = join(query)?;
    let declared = |name: &str| stream(if name == "orders" { ORDERS } else { PAYMENTS });
    let [left, right] = [declared(create.sides[0].as_str()), declared(create.sides[1].as_str())];
    create.plan([&left, &right])
}

fn shown(errors: &QueryErrors) -> String {
    let shown = errors.0.iter().map(|error| {
        let place = format!("{}:{}", error.line.unwrap_or(0), error.column.unwrap_or(0));
        let hint = error.hint.as_ref().map_or(String::new(), |hint| format!(" ({hint})"));
        format!("{place} {}{hint}", error.message)
    });
    shown.collect::<Vec<_>>().join("; ")
}

const FROM: &str = "FROM STREAM(orders) AS o JOIN STREAM(payments) AS p";
const WITHIN: &str = "p.at BETWEEN o.ts AND o.ts + INTERVAL '10 minutes'";

/// All faults of a query, in which `@` stands for the two streams and `#` for a bound.
fn faults(query: &str) -> String {
    match plan(&query.replace('@', FROM).replace('#', WITHIN)) {
        Ok(plan) => format!("{plan:?}"),
        Err(errors) => shown(&errors),
    }
}

/// Checks the normal form of a statement, and that it reads back as the same.
fn check_form(text: &str, expected: &str) {
    let ddl = read(text).unwrap_or_else(|errors| panic!("{text}: {}", shown(&errors))).unwrap();
    assert_eq!(ddl.to_string(), expected, "{text}");
    assert_eq!(read(expected).unwrap(), Some(ddl));
}

#[test]
fn statements_have_a_normal_form() {
    check_form(
        "create join if not exists \"a-b\" into pairs as select o.id, p.method m from stream(orders) o inner join \
         stream(payments) as p on o.id = p.order_id and p.at between o.ts - interval '1 hour' and o.ts \n where o.id > 5;",
        "CREATE JOIN IF NOT EXISTS \"a-b\" INTO pairs AS\nselect o.id, p.method m from stream(orders) o inner join \
         stream(payments) as p on o.id = p.order_id and p.at between o.ts - interval '1 hour' and o.ts \n where o.id > 5",
    );
    check_form("drop join if exists j", "DROP JOIN IF EXISTS j");
    check_form("show joins;", "SHOW JOINS");
    check_form("show create join j", "SHOW CREATE JOIN j");
    check_form("describe join j", "DESCRIBE JOIN j");
}

#[test]
fn conditions_go_where_they_cost_least() {
    let plan = plan(&format!(
        "SELECT o.id, P.Method AS how, o.amount - p.amount AS open, meta['x'] AS x {FROM} ON order_id = o.id AND o.customer = p.\"who\" \
         AND {WITHIN} AND (p.method != 'gift') WHERE o.amount > 10 AND o.amount >= p.amount"
    ))
    .unwrap();
    let text = |exprs: &[swiftwater_lang::plan::Expr]| {
        exprs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    };
    let [left, right] = &plan.sides;
    assert_eq!((left.stream.as_str(), right.stream.as_str()), ("orders", "payments"));
    assert_eq!((left.lateness_ms, right.lateness_ms), (5000, 0));
    assert_eq!((plan.low_ms, plan.high_ms), (0, 600_000));
    let columns = plan.columns.iter().map(|column| format!("{} {}", column.name, column.expr));
    let told = [
        text(&left.keys),
        text(&right.keys),
        text(left.filter.as_slice()),
        text(right.filter.as_slice()),
        text(plan.filter.as_slice()),
        text(&left.values),
        text(&right.values),
        columns.collect::<Vec<_>>().join(", "),
    ];
    let expected = [
        "id : LONG, customer : STRING",
        "\"order\".id : MAP[LONG], who",
        "amount : DOUBLE > 10",
        "method : STRING != 'gift'",
        "#0 >= #3",
        "amount : DOUBLE, id : LONG, meta.x : MAP[STRING]",
        "amount : DOUBLE, method : STRING",
        "id #1, how #4, open #0 - #3, x #2",
    ];
    assert_eq!(told, expected);
}

#[test]
fn bounds_may_be_said_from_either_side() {
    let bound = |bound: &str| {
        let plan = plan(&format!("SELECT o.id {FROM} ON o.id = p.order_id AND {bound}")).unwrap();
        (plan.low_ms, plan.high_ms)
    };
    assert_eq!(
        bound("p.at BETWEEN o.ts - INTERVAL '2 seconds' AND o.ts + INTERVAL '1 minute'"),
        (-2000, 60_000)
    );
    assert_eq!(
        bound("o.ts BETWEEN p.at - INTERVAL '2 seconds' AND p.at + INTERVAL '1 minute'"),
        (-60_000, 2000)
    );
    assert_eq!(bound("at BETWEEN ts AND ts"), (0, 0));
    assert_eq!(
        bound("(p.at) BETWEEN o.ts + INTERVAL '1 second' AND o.ts + INTERVAL '2 seconds'"),
        (1000, 2000)
    );
}

#[test]
fn a_stream_is_joined_with_itself() {
    let plan = plan(
        "SELECT a.id, b.id AS next FROM STREAM(orders) a JOIN STREAM(orders) b ON a.customer = b.customer \
         AND b.ts BETWEEN a.ts + INTERVAL '1 ms' AND a.ts + INTERVAL '1 hour'",
    );
    let plan = plan.unwrap();
    assert_eq!((plan.low_ms, plan.high_ms), (1, 3_600_000));
}

#[test]
fn faults_tell_their_place() {
    let bound_hint = "Write p.at BETWEEN o.ts - INTERVAL '…' AND o.ts + INTERVAL '…'.";
    let wrong = [
        ("SELECT * @ ON o.id = p.order_id AND #", "2:8 a join has no `*` (Name the columns: SELECT x.id, y.amount.)".to_owned()),
        (
            "SELECT o.id FROM STREAM(orders) AS o LEFT JOIN STREAM(payments) AS p ON o.id = p.order_id AND #",
            "2:38 a LEFT JOIN is not supported yet (A join returns only pairs. To find events without a counterpart, \
             use MATCH_RECOGNIZE with `!B` over one stream.)".to_owned(),
        ),
        (
            "SELECT o.id FROM STREAM(orders) JOIN STREAM(payments) AS p ON o.id = p.order_id AND #",
            "2:33 expected a name for the stream's events, found `JOIN` (Name both streams: STREAM(orders) AS x.)".to_owned(),
        ),
        ("SELECT o.id @ ON #", "1:36 ON has no equality (A join needs an equality: ON x.id = y.id AND ….)".to_owned()),
        ("SELECT o.id @ ON o.id = p.order_id", format!("1:36 ON does not limit the distance in time of the events \
             ({bound_hint})")),
        ("SELECT amount @ ON o.id = p.order_id AND #", "1:8 both streams have a column `amount` (Write `o.amount` or `p.amount`.)".to_owned()),
        ("SELECT o.id, nix @ ON o.id = p.order_id AND #", "1:14 neither stream has a column `nix` (Write `o.nix` or `p.nix`.)".to_owned()),
        ("SELECT o @ ON o.id = p.order_id AND #", "1:8 `o` is a whole event (Name a field of it: o.…)".to_owned()),
        ("SELECT o.id + 1 @ ON o.id = p.order_id AND #", "1:8 this column has no name (Write `… AS name`.)".to_owned()),
        ("SELECT o.amount, p.amount @ ON o.id = p.order_id AND #", "1:18 two columns are named `amount` (Write `… AS name`.)".to_owned()),
        ("SELECT o.id @ ON o.customer = p.order_id AND #", "1:68 values of type STRING and LONG cannot be compared \
             in an equality of a join (Write CAST(… AS …) on one side.)".to_owned()),
        ("SELECT o.id @ ON o.meta = p.who AND #", "1:68 values of type MAP[STRING] and ANY cannot be compared in an \
             equality of a join (Write CAST(… AS …) on one side.)".to_owned()),
        ("SELECT o.id @ ON o.id = p.order_id AND # AND #", format!("1:145 a join has one bound in time, and this is \
             a second one ({bound_hint})")),
        ("SELECT o.id @ ON o.id = p.order_id AND p.at BETWEEN o.ts + INTERVAL '2 seconds' AND o.ts", format!("1:90 this range is empty: its start must not be after its end ({bound_hint})")),
        ("SELECT o.id @ ON o.id = p.order_id AND p.order_id BETWEEN o.ts AND o.ts + INTERVAL '2 seconds'", format!("1:90 a bound in time must compare the time columns of the streams' WATERMARKs ({bound_hint})")),
        ("SELECT o.id @ ON o.id = p.order_id AND p.at BETWEEN o.ts AND o.ts + INTERVAL '2 parsecs'", "2:128 no unit of time `parsecs` (Units are milliseconds, seconds, minutes, hours and days.)".to_owned()),
        ("SELECT o.id @ ON o.id = p.order_id OR #", "2:86 OR is not allowed between the conditions of ON (Write `(a \
             OR b)`, or move it into WHERE.)".to_owned()),
        ("SELECT COUNT(*) AS n @ ON o.id = p.order_id AND #", "1:8 an aggregate is not allowed here".to_owned()),
        ("SELECT o.id @ ON o.id = p.order_id AND # WHERE o.ts < NOW", "1:154 NOW is not allowed in a join (The \
             result of a join must not depend on the time of the query.)".to_owned()),
        ("SELECT o.id @ ON o.id = p.order_id AND # GROUP BY o.id", "2:141 expected the end of the join, found \
             `GROUP` (Use groups, windows and order in a view or query over the stream of the pairs.)".to_owned()),
        ("SELECT o.id @ ON o.id = p.order_id AND # JOIN STREAM(x) AS x ON x.a = o.id", "2:141 a join of more than two streams is not supported yet (Write the pairs of one join into a stream, and join that stream in another.)".to_owned()),
        ("SELECT o.id FROM STREAM(orders) AS o JOIN STREAM(orders) AS O ON o.id = o.id AND #", "1:61 both streams are named `O` (Use different names.)".to_owned()),
        ("SELECT o.id FROM STREAM() AS o JOIN STREAM(orders) AS p ON o.id = p.id AND #", "2:18 a join needs named streams (Write STREAM(name).)".to_owned()),
        ("SELECT o.id @ ON o.id = p.order_id AND o.customer AND #", "1:90 a join needs conditions, and this is STRING".to_owned()),
    ];
    let told: Vec<String> = wrong.iter().map(|(query, _)| faults(query)).collect();
    let differ = told.iter().zip(&wrong).filter(|(told, (_, expected))| told != &expected);
    let differ: Vec<String> = differ.map(|(told, (query, _))| format!("{query}\n  {told}")).collect();
    assert!(differ.is_empty(), "{}", differ.join("\n"));
    let unmarked = stream("CREATE STREAM payments (order_id LONG, at LONG)");
    let create = join(&format!("SELECT o.id {FROM} ON o.id = p.order_id AND {WITHIN}")).unwrap();
    let told = shown(&create.plan([&stream(ORDERS), &unmarked]).unwrap_err());
    assert!(
        told.starts_with("1:63 stream `payments` declares no WATERMARK (A join uses event time: "),
        "{told}"
    );
}

#[test]
fn a_live_query_hints_at_joins() {
    let text = "SELECT * FROM STREAM(orders) AS o JOIN STREAM(payments) AS p ON o.id = p.id";
    let errors = parse(text, &ParseOptions::new(Dialect::Native, 0)).unwrap_err();
    let hint = "A query reads one stream, joined with views and tables. CREATE JOIN writes pairs of events of two \
                streams into a third. MATCH_RECOGNIZE finds sequences of events in one stream.";
    assert_eq!(shown(&errors), format!("1:35 a join of streams is not supported yet ({hint})"));
}
