//! Tests of names and types in Bullet's dialect, against the observed behaviour of Bullet.
//!
//! They compare the places of its errors, in the order of the text, and the query as it prints it.

use swiftwater_event::Type;
use swiftwater_lang::{Dialect, ParseOptions, Schema, parse};

fn schema() -> Schema {
    let fields = [
        ("i", "INTEGER"),
        ("s", "STRING"),
        ("d", "DOUBLE"),
        ("t", "BOOLEAN"),
        ("sm", "STRING_MAP"),
        ("il", "INTEGER_LIST"),
    ];
    Schema::new(fields.map(|(name, ty)| (name.into(), Type::parse(ty).unwrap_or(Type::Any))))
}

/// The places of the faults (`-`: of the query as a whole), or the query's printed form.
fn answer(text: &str, schema: Option<&Schema>) -> String {
    let mut options = ParseOptions::new(Dialect::Bullet, 0);
    options.schema = schema;
    match parse(text, &options) {
        Ok(statement) => statement.query.printed.to_string(),
        Err(errors) => {
            let place = |error: &swiftwater_lang::QueryError| match (error.line, error.column) {
                (Some(line), Some(column)) => format!("{line}:{column}"),
                _ => "-".to_owned(),
            };
            errors.0.iter().map(place).collect::<Vec<_>>().join(" ")
        }
    }
}

#[track_caller]
fn typed(text: &str, expected: &str) {
    assert_eq!(answer(text, Some(&schema())), expected, "{text}");
}

#[track_caller]
fn untyped(text: &str, expected: &str) {
    assert_eq!(answer(text, None), expected, "{text}");
}

#[track_caller]
fn printed(text: &str, expected: &str) {
    let query = |columns: &str| format!("SELECT {columns} FROM STREAM()");
    untyped(&query(text), &query(expected));
}

#[test]
fn faults_of_both_queries_are_told() {
    typed("SELECT s FROM (SELECT nosuch FROM STREAM()) WHERE t", "1:8 1:23 1:51");
    typed("SELECT s FROM (SELECT s + 1 AS x FROM STREAM()) WHERE x", "1:8 1:23");
}

#[test]
fn faults_of_all_clauses_are_told() {
    typed("SELECT DISTINCT sm FROM STREAM() ORDER BY nosuch", "1:17 1:43");
    typed("SELECT sm, COUNT(*) FROM STREAM() GROUP BY sm HAVING i >= 2", "1:44 1:54");
    typed("SELECT s, COUNT(*) AS n FROM STREAM() GROUP BY s HAVING n IS NULL + 1 ORDER BY m", "1:57 1:80");
}

#[test]
fn what_has_a_fault_has_a_type_all_the_same() {
    typed("SELECT s FROM STREAM() WHERE (s + 1) AND t", "1:30 1:31");
    typed("SELECT 5 AND t AND 'x' FROM STREAM()", "1:8 1:8");
    untyped("SELECT IF(a, 1) FROM STREAM()", "SELECT IF(a, 1) FROM STREAM()");
}

#[test]
fn aggregates_have_the_type_of_what_they_are_over() {
    typed("SELECT IF(MAX(i) > 2, 1.5, MAX(i)) FROM STREAM()", "1:8");
    typed("SELECT IF(MAX(i) > 2, 1, MAX(i)) FROM STREAM()", "SELECT IF(MAX(i) > 2, 1, MAX(i)) FROM STREAM()");
    // An aggregate is told of once, where it stands first.
    untyped("SELECT 1 + MAX(UPPER(i)), MAX(UPPER(i)) FROM STREAM() ORDER BY MAX(UPPER(i))", "1:12");
}

#[test]
fn steps_do_not_carry_fields_to_the_order() {
    typed("SELECT s FROM STREAM() ORDER BY il[i]", "1:36");
    typed("SELECT s FROM STREAM() ORDER BY i, il[i]", "SELECT s FROM STREAM() ORDER BY i ASC, il[i] ASC");
    untyped("SELECT a FROM STREAM() ORDER BY b[c]", "1:35");
}

#[test]
fn names_of_windows_and_columns() {
    typed("SELECT s FROM STREAM() ORDER BY nosuch, il WINDOWING EVERY(1000, TIME, ALL)", "1:33 1:41");
    typed("SELECT s FROM STREAM() ORDER BY nosuch WINDOWING EVERY(5, RECORD, ALL)", "-");
    untyped("SELECT \"COUNT(*)\", COUNT(*) FROM STREAM() GROUP BY \"COUNT(*)\"", "-");
    untyped("SELECT COUNT(*) AS a, COUNT(*) AS b, 5 + 'x' FROM STREAM()", "-");
    // A name that an alias hides is still a name for the outer query, though nothing has it.
    untyped(
        "SELECT a FROM (SELECT DISTINCT a AS b FROM STREAM())",
        "SELECT a FROM (SELECT DISTINCT a AS b FROM STREAM())",
    );
}

#[test]
fn columns_count_as_java_counts() {
    typed("SELECT s FROM STREAM() WHERE '😀' = s AND nosuch", "1:43");
}

#[test]
fn what_cannot_be_a_name_is_told_unless_the_grammar_fails_first() {
    untyped("SELECT 2abc(abc) FROM STREAM()", "1:12");
    untyped("SELECT a AS 5f FROM STREAM()", "1:13");
    untyped("SELECT a AS 5x FROM STREAM() WHERE", "1:13");
    untyped("SELECT a AS \"\" b FROM STREAM()", "1:16");
    untyped("SELECT a.2b FROM STREAM()", "1:10");
    untyped("SELECT a .5 FROM STREAM()", "1:11");
    untyped("SELECT .5 FROM STREAM()", "1:8");
    untyped("SELECT 1 + (SELECT", "1:13");
    untyped("\t \n ", "2:2");
    untyped("SELECT 1e-3x FROM STREAM()", "SELECT 0.001 AS x FROM STREAM()");
}

#[test]
fn parentheses_that_are_kept() {
    printed("(a + b) AS c, ((a + b))", "a + b AS c, a + b");
    printed("ABS((a + b)), ABS(((a)))", "ABS((a + b)), ABS(a)");
    printed("CAST((a IS NULL) AS LONG)", "CAST((a IS NULL) AS LONG)");
    printed("SUM((a)), MAX((a % 2))", "SUM(a), MAX((a % 2))");
    printed("[(a = 1), (a IN (1))]", "[(a = 1), a IN (1)]");
    printed("IF((NOT a), (a AND b), (a > 1))", "IF(NOT a, a AND b, (a > 1))");
    printed("NOT((a = b)), NOT (a = b)", "NOT((a = b)), NOT(a = b)");
    printed("a BETWEEN ((1 + 2), 3)", "a BETWEEN ((1 + 2), 3)");
    printed("(a IN b) XOR (a = 1)", "a IN b XOR (a = 1)");
    printed("m[(a + 1)]", "m[(a + 1)]");
    printed("\"a\"\"b\"", "\"a\"b\"");
    untyped("SELECT TOP(3, (a + 1)), (a + 1) AS x FROM STREAM()", "1:26");
}
