use proptest::prelude::*;

use super::*;
use crate::{Dialect, ParseOptions, parse_ddl, parse_kept_ddl};

pub(super) fn read(text: &str) -> Result<Option<Ddl>, QueryErrors> {
    parse_ddl(text, &ParseOptions::new(Dialect::Native, 0))
}

/// Checks the normal form of a statement (`None`: it is none of ours), or the first fault with its place and hint; and
/// that the normal form reads back as the same.
pub(super) fn check(text: &str, expected: &str) {
    let shown = match read(text) {
        Ok(None) => "none of ours".to_owned(),
        Ok(Some(ddl)) => {
            let shown = ddl.to_string();
            assert_eq!(read(&shown), Ok(Some(ddl)), "normal form of {text}: {shown}");
            shown
        }
        Err(errors) => errors.0.iter().map(shown_error).collect::<Vec<_>>().join("; "),
    };
    assert_eq!(shown, expected, "{text}");
}

/// The normal form of a statement, or its first fault with the place.
pub(super) fn normal_form_or_fault(text: &str) -> String {
    match crate::parse_ddl(text, &ParseOptions::new(Dialect::Native, 0)) {
        Ok(Some(ddl)) => ddl.to_string(),
        Ok(None) => "none of ours".to_owned(),
        Err(errors) => {
            let error = &errors.0[0];
            format!("{}:{}: {}", error.line.unwrap_or(0), error.column.unwrap_or(0), error.message)
        }
    }
}

fn shown_error(error: &crate::QueryError) -> String {
    let place = format!("{}:{}", error.line.unwrap_or(0), error.column.unwrap_or(0));
    let hint = error.hint.as_ref().map_or(String::new(), |hint| format!(" ({hint})"));
    format!("{place} {}{hint}", error.message)
}

#[test]
fn alerts_are_on_views_or_queries_and_go_into_streams_or_to_webhooks() {
    check(
        "create alert hot on ( select device, avg((t)) as t -- )\n from stream(r) group by device /* ( */ ) when t > 40 into stream s",
        "CREATE ALERT hot ON (select device, avg((t)) as t -- )\n from stream(r) group by device) WHEN t > 40\nINTO s",
    );
    check(
        "create alert a on (select 1) when b into webhook 'https://x/it''s' with (Timeout = '60 seconds', resolve = false, \
         batch_rows = 5, retries = 3, dead_letter = lost, headers = 'A: b')",
        "CREATE ALERT a ON (select 1) WHEN b\nINTO WEBHOOK 'https://x/it''s' WITH (resolve = false, batch_rows = 5, \
         retries = 3, dead_letter = 'lost', timeout = '1 minute', headers = 'A: b')",
    );
    // Words that are names here.
    check("create alert a on v when b into webhook", "CREATE ALERT a ON v WHEN b\nINTO webhook");
    check("create alert a on v when b into stream", "CREATE ALERT a ON v WHEN b\nINTO \"stream\"");
    check(
        "create alert a on v when b into table with (resolve = true)",
        "CREATE ALERT a ON v WHEN b\nINTO table WITH (resolve = true)",
    );
    for (text, fault) in [
        (
            "CREATE ALERT a ON STREAM(r) WHEN t > 1 INTO s",
            "1:19 an alert needs rows with a key, and the events of a stream have none (State the rows and their \
             key: ON (SELECT device, LAST(*) AS event FROM STREAM(readings) GROUP BY device) WHEN event.temperature \
             > 40.)",
        ),
        ("CREATE ALERT a ON (SELECT (1) WHEN t > 1 INTO s", "1:19 this `(` is not closed"),
        (
            "CREATE ALERT a ON () WHEN t > 1 INTO s",
            "1:19 the parentheses contain no query (Write ON (SELECT … FROM STREAM(…) GROUP BY …), or ON and the name \
             of a view.)",
        ),
        (
            "CREATE ALERT a ON (SELECT 1) INTO s",
            "1:30 expected WHEN, found `INTO` (Write WHEN and a condition on a row of the query.)",
        ),
        (
            "CREATE ALERT a ON v WHEN b s",
            "1:28 expected INTO, found `s` (Write INTO and the target stream, or INTO WEBHOOK and an address.)",
        ),
        (
            "CREATE ALERT a ON v WHEN b INTO WEBHOOK 'x'",
            "1:41 a webhook's address must begin with http:// or https://",
        ),
        (
            "CREATE ALERT a ON v WHEN b INTO TABLE t",
            "1:33 the target of an alert is a stream or a webhook, not a table (Use a stream as the target; a job or \
             a sink can read it.)",
        ),
        (
            "CREATE ALERT a ON v WHEN b INTO FILE 't'",
            "1:33 the target of an alert is a stream or a webhook, not a file (Use a stream as the target; a job or \
             a sink can read it.)",
        ),
        (
            "CREATE ALERT a ON v WHEN b INTO s WITH (retries = 5)",
            "1:51 option `retries` is for webhooks only (Write INTO WEBHOOK 'https://…', or leave the option out.)",
        ),
        (
            "CREATE ALERT a ON v WHEN b INTO WEBHOOK 'http://x' WITH (retries = 5)",
            "1:68 `retries` needs `dead_letter`, the stream for rows that cannot be delivered (Without `retries`, \
             the server retries without limit.)",
        ),
        (
            "CREATE ALERT a ON v WHEN b INTO WEBHOOK 'http://x' WITH (dead_letter = q, retries = -1)",
            "1:85 `retries` must be a whole number from 0",
        ),
        (
            "CREATE ALERT a ON v WHEN b INTO WEBHOOK 'http://x' WITH (dead_letter = q, retries = 1.5)",
            "1:85 `retries` must be a whole number from 0",
        ),
        (
            "CREATE ALERT a ON v WHEN b INTO WEBHOOK 'http://x' WITH (dead_letter = q, retries = - x)",
            "1:87 expected a number, found `x`",
        ),
        (
            "CREATE ALERT a ON v WHEN b INTO WEBHOOK 'http://x' WITH (format = csv)",
            "1:58 no option `format` (Options are resolve, batch_rows, retries, dead_letter, timeout, headers.)",
        ),
    ] {
        check(text, fault);
    }
}

#[test]
fn streams_are_declared() {
    check("create stream s", "CREATE STREAM s");
    check("CREATE STREAM IF NOT EXISTS \"a-b.c\";", "CREATE STREAM IF NOT EXISTS \"a-b.c\"");
    check(
        "CREATE STREAM flights (carrier VARCHAR(3) NOT NULL, delay int DEFAULT -5 CHECK (delay > -1440), ts timestamp(us),
           \"select\" double precision, tags LIST[STRING], m map[long], j json, watermark bool,
           CONSTRAINT sane CHECK (delay < 10 or carrier = 'it''s'), WATERMARK FOR TS AS TS - INTERVAL '90 seconds')
         WITH (store = true, retention = '30 days', ack = 'disk', partition_by = day, on_bad_event = quarantine)",
        "CREATE STREAM flights (\n  carrier STRING NOT NULL,\n  delay INTEGER DEFAULT -5 CHECK (delay > -1440),\n  \
         ts TIMESTAMP(US),\n  \"select\" DOUBLE,\n  tags LIST[STRING],\n  m MAP[LONG],\n  j JSON,\n  \
         \"watermark\" BOOLEAN,\n  CONSTRAINT sane CHECK (delay < 10 or carrier = 'it''s'),\n  \
         WATERMARK FOR ts AS ts - INTERVAL '90 seconds' MAX AHEAD INTERVAL '1 hour'\n) WITH (store = true, retention = '30 days', ack = disk, \
         partition_by = day, on_bad_event = quarantine)",
    );
    check(
        "CREATE STREAM s (\"größe\" LONG PATH 'a.b[0][''k k'']' NOT NULL DEFAULT 1 + 2, t TIMESTAMP DEFAULT now(), \
         x STRING DEFAULT 'a' NOT NULL CHECK (x != '') CHECK (größe IS NOT NULL))",
        "CREATE STREAM s (\n  größe LONG PATH 'a.b[0][''k k'']' NOT NULL DEFAULT 1 + 2,\n  t TIMESTAMP DEFAULT NOW,\n  \
         x STRING NOT NULL DEFAULT 'a' CHECK (x != '') CHECK (größe IS NOT NULL)\n)",
    );
    check(
        "CREATE STREAM s (a LIST[INT], b MAP[bigint], c LIST[MAP[Text]], d LIST[BOOL], e MAP[FLOAT8])",
        "CREATE STREAM s (\n  a LIST[INTEGER],\n  b MAP[LONG],\n  c LIST[MAP[STRING]],\n  d LIST[BOOLEAN],\n  \
         e MAP[DOUBLE]\n)",
    );
    check(
        "CREATE STREAM s WITH (store = TRUE, columns_max = 100, event_bytes_max = '64 kib', retention = '90m', \
         partition_by = (\"a b\", c))",
        "CREATE STREAM s WITH (store = true, retention = '90 minutes', partition_by = (\"a b\", c), \
         columns_max = 100, event_bytes_max = '64KiB')",
    );
}

#[test]
fn other_statements_are_read() {
    check(
        "ALTER STREAM s ADD a INT, ADD COLUMN IF NOT EXISTS b TEXT DEFAULT 'x'",
        "ALTER STREAM s ADD COLUMN a INTEGER, ADD COLUMN IF NOT EXISTS b STRING DEFAULT 'x'",
    );
    check(
        "alter stream if exists s alter a type bigint, alter column b set data type double, alter c drop not null, \
         alter c set default NOW, alter c drop default",
        "ALTER STREAM IF EXISTS s ALTER COLUMN a TYPE LONG, ALTER COLUMN b TYPE DOUBLE, ALTER COLUMN c DROP NOT NULL, \
         ALTER COLUMN c SET DEFAULT NOW, ALTER COLUMN c DROP DEFAULT",
    );
    check(
        "ALTER STREAM s SET (ack = memory), RESET (retention, store)",
        "ALTER STREAM s SET (ack = memory), RESET (retention, store)",
    );
    check("DROP STREAM IF EXISTS s;", "DROP STREAM IF EXISTS s");
    check("SHOW streams", "SHOW STREAMS");
    check("show create stream s", "SHOW CREATE STREAM s");
    check("DESCRIBE s", "DESCRIBE s");
    check("DESC stream", "DESCRIBE \"stream\"");
    check("DESCRIBE STREAM stream", "DESCRIBE STREAM \"stream\"");
    check("RUN JOB j", "RUN JOB j");
    check("ALTER JOB j SET SCHEDULE '@daily'", "ALTER JOB j SET SCHEDULE '@daily'");
    check("ALTER JOB j enable", "ALTER JOB j ENABLE");
    check(
        "ALTER JOB j SET (time_zone = 'Europe/Berlin', incremental = TRUE)",
        "ALTER JOB j SET (incremental = true, time_zone = 'Europe/Berlin')",
    );
    check("ALTER JOB j RESET (time_zone)", "ALTER JOB j RESET (time_zone)");
    check("ALTER JOB j SET (timeout = '90 s')", "ALTER JOB j SET (timeout = '90 seconds')");
    check("ALTER JOB j SET (timeout = '1h 30m')", "ALTER JOB j SET (timeout = '90 minutes')");
    check("ALTER JOB j SET (timeout = NONE)", "ALTER JOB j SET (timeout = none)");
    check("ALTER JOB j RESET (timeout)", "ALTER JOB j RESET (timeout)");
    check("DROP JOB IF EXISTS j", "DROP JOB IF EXISTS j");
}

#[test]
fn views_keep_their_query_as_it_is() {
    check(
        "create materialized view if not exists \"a.b\" as select k, count(*) as n -- {\n from stream(s) group by k ;",
        "CREATE MATERIALIZED VIEW IF NOT EXISTS \"a.b\" AS\nselect k, count(*) as n -- {\n from stream(s) group by k",
    );
    check(
        "create materialized view v delete when status = 'gone' or (a) with (TTL = '720h') as select 1",
        "CREATE MATERIALIZED VIEW v\nDELETE WHEN status = 'gone' or (a)\nWITH (ttl = '30 days') AS\nselect 1",
    );
    check(
        "CREATE MATERIALIZED VIEW v WITH (ttl = '0 s') AS SELECT 1",
        "1:40 `ttl` must be a time such as '30 days'",
    );
    check("CREATE MATERIALIZED VIEW v DELETE a AS SELECT 1", "1:35 expected WHEN, found `a`");
    check("DROP MATERIALIZED VIEW IF EXISTS v", "DROP VIEW IF EXISTS v");
    check(
        "create alert if not exists a on \"v.w\" when n > 5 and name like '%x' into s with (resolve = FALSE);",
        "CREATE ALERT IF NOT EXISTS a ON \"v.w\" WHEN n > 5 and name like '%x'\nINTO s WITH (resolve = false)",
    );
    check(
        "create materialized view v with (backfill = TRUE, ttl = '1h') as select 1",
        "CREATE MATERIALIZED VIEW v\nWITH (ttl = '1 hour', backfill = true) AS\nselect 1",
    );
    check(
        "CREATE MATERIALIZED VIEW v WITH (backfill = 5) AS SELECT 1",
        "1:45 `backfill` must be true or false",
    );
    check("DROP ALERT IF EXISTS a", "DROP ALERT IF EXISTS a");
    check("SHOW ALERTS", "SHOW ALERTS");
    check("show create alert a", "SHOW CREATE ALERT a");
    check("DESCRIBE ALERT a", "DESCRIBE ALERT a");
    check(
        "CREATE ALERT a v",
        "1:16 expected ON, found `v` (Write ON and a view, or ON and a query in parentheses.)",
    );
    check("CREATE ALERT a ON v WHEN n >", "1:29 expected an expression, found the end of the query");
    check("CREATE ALERT a ON v WHEN n > 1 INTO s WITH (resolve = 5)", "1:55 `resolve` must be true or false");
    check(
        "ALTER ALERT a SET (resolve = true)",
        "1:7 an alert cannot be altered (Drop it, and create it with another condition.)",
    );
    check("drop view v;", "DROP VIEW v");
    check("show views", "SHOW VIEWS");
    check("SHOW CREATE VIEW v", "SHOW CREATE VIEW v");
    check("DESCRIBE VIEW v", "DESCRIBE VIEW v");
    check("DESCRIBE view", "DESCRIBE \"view\"");
    check("CREATE VIEW v AS SELECT 1", "none of ours");
    check("CREATE MATERIALIZED VIEW v AS", "1:30 a view needs a query");
    check("CREATE MATERIALIZED VIEW v AS SELECT 1; SELECT 2", "1:41 only one query is allowed here");
    check(
        "CREATE MATERIALIZED VIEW v SELECT 1",
        "1:28 expected DELETE, WITH or AS, found `SELECT` (Write AS and the query of the view.)",
    );
    check(
        "ALTER MATERIALIZED VIEW v SET (a = 1)",
        "1:20 a view cannot be altered (Drop it, and create it with another query.)",
    );
}

#[test]
fn jobs_keep_their_sql_as_it_is() {
    check(
        "CREATE JOB j SCHEDULE '0 * * * *' AS insert into t select `a`, x::int, '{;' -- what ; is { this\n from s ;",
        "CREATE JOB j SCHEDULE '0 * * * *' AS\ninsert into t select `a`, x::int, '{;' -- what ; is { this\n from s",
    );
    check(
        "CREATE JOB IF NOT EXISTS j SCHEDULE '*' AS $$ INSERT 1; INSERT 2; $$;",
        "CREATE JOB IF NOT EXISTS j SCHEDULE '*' AS $$\nINSERT 1; INSERT 2\n$$",
    );
    check(
        "CREATE JOB j SCHEDULE '@daily' WITH (incremental = true, time_zone = 'Asia/Tokyo') AS SELECT 1",
        "CREATE JOB j SCHEDULE '@daily' WITH (incremental = true, time_zone = 'Asia/Tokyo') AS\nSELECT 1",
    );
    check(
        "CREATE JOB j SCHEDULE '@daily' WITH (incremental = 1) AS SELECT 1",
        "1:52 `incremental` must be true or false",
    );
    check(
        "CREATE JOB j SCHEDULE '@daily' WITH (timeout = '0 s') AS SELECT 1",
        "1:48 `timeout` must be a time such as '30 min', or none",
    );
    check(
        "CREATE JOB j SCHEDULE '@daily' WITH (timeout = 60) AS SELECT 1",
        "1:48 `timeout` must be a time such as '30 min', or none",
    );
    check(
        "CREATE JOB j SCHEDULE '@daily' WITH (timezone = 'UTC') AS SELECT 1",
        "1:38 no option `timezone` (Did you mean `time_zone`?)",
    );
    check("CREATE JOB j SCHEDULE '*' AS $$ SELECT 1 $$", "CREATE JOB j SCHEDULE '*' AS\nSELECT 1");
    check(
        "CREATE JOB j SCHEDULE '*' AS a; b",
        "1:33 only one statement is allowed here (Write several between `$$` and `$$`.)",
    );
    check("CREATE JOB j SCHEDULE '*' AS $$ a", "1:30 this `$$` is not closed (Close it with `$$`.)");
    check("CREATE JOB j SCHEDULE '*' AS $$a$$ b", "1:36 nothing is allowed after the closing `$$`");
    check("CREATE JOB j SCHEDULE '*' AS ;", "1:29 a job runs at least one statement");
    check(
        "CREATE JOB j SCHEDULE '' AS a",
        "1:23 a schedule cannot be empty (Write it as for cron: '0 * * * *'.)",
    );
    check("CREATE JOB j AS `a`", "1:14 expected SCHEDULE, found `AS`");
}

#[test]
fn what_is_not_ours_is_left_to_sql() {
    for text in [
        "",
        ";",
        "SELECT 1",
        "CREATE TABLE t (a INT)",
        "CREATE OR REPLACE VIEW v AS SELECT 1",
        "DROP TABLE t",
        "create external table x stored as parquet location `y`",
        "SHOW ALL",
        "SHOW COLUMNS FROM t",
        "SHOW TABLES FROM x",
        "DESCRIBE TABLE a.b",
        "DESCRIBE SELECT 1",
        "DESCRIBE a.b",
        "EXPLAIN SELECT 1",
        "{?",
        "INSERT INTO t VALUES (1)",
        "ALTER TABLE t ADD COLUMN a INT",
        "CREATE",
        "RUN",
        "STREAM",
        "CREATE INDEX i ON t (a)",
        "\"CREATE\" STREAM s",
    ] {
        check(text, "none of ours");
    }
}

#[test]
fn faults_have_a_place_and_a_hint() {
    check("CREATE STREEM s", "1:8 there is no CREATE STREEM (Did you mean CREATE STREAM?)");
    check("SHOW STREMS", "1:6 there is no SHOW STREMS (Did you mean SHOW STREAMS?)");
    check("CREATE STREAM 5", "1:15 expected a stream's name, found `5`");
    check(
        "CREATE STREAM a-b",
        "1:16 expected the end of the name, found `-` (Write a stream's name with `-` or `.` in double quotes.)",
    );
    check(
        "CREATE STREAM \"ä\"",
        "1:15 `ä` cannot be a stream's name: it must begin with a letter A-Z, a-z or `_` (`[A-Za-z_][A-Za-z0-9_.-]*`)",
    );
    check(
        "CREATE STREAM s (a MAP<STRING, LONG>)",
        "1:20 no type `MAP` (Write the type of its values in brackets: MAP[STRING]. Its keys are always text.); 1:36 \
         expected a type, found `>`",
    );
    check("CREATE STREAM s (a INTT)", "1:20 no type `INTT` (Did you mean INT?)");
    check(
        "CREATE STREAM s (a STRNG, b DECIMAL(3), c LONG NUL)",
        "1:20 no type `STRNG` (Did you mean STRING?); 1:29 there is no type DECIMAL (Write DOUBLE, or LONG for whole units.); 1:48 expected NOT NULL, DEFAULT, CHECK, PATH, `,` or `)`, found `NUL`",
    );
    check("CREATE STREAM s (a LONG, A STRING)", "1:26 column `A` is declared twice");
    check(
        "CREATE STREAM s (_Offset LONG)",
        "1:18 `_Offset` cannot be a column's name: stored streams reserve this name for a column of the server \
         (Rename it, and set the path of its value with PATH '…'.)",
    );
    check("CREATE STREAM s (a LONG CHECK (b > 1))", "1:32 no column `b` (Columns are a.)");
    check(
        "CREATE STREAM s (carrier LONG, CHECK (carier > 1))",
        "1:39 no column `carier` (Did you mean `carrier`?)",
    );
    check("CREATE STREAM s (a LONG CHECK (a + 1))", "1:32 CHECK needs a condition, and this is LONG");
    check(
        "CREATE STREAM s (a LONG CHECK (a < NOW))",
        "1:36 NOW is not allowed in a CHECK (The result of a CHECK must not depend on the time of the check.)",
    );
    check("CREATE STREAM s (a LONG CHECK (SUM(a) > 1))", "1:32 an aggregate is not allowed here");
    check(
        "CREATE STREAM s (j JSON DEFAULT '{}')",
        "1:33 `j` can have no default: it is JSON (Lists, maps and JSON have no default.)",
    );
    check(
        "CREATE STREAM s (j JSON DEFAULT NOW)",
        "1:33 the default of `j` cannot be NOW: it is JSON (NOW is a TIMESTAMP, or a LONG of milliseconds since 1970.)",
    );
    check(
        "ALTER STREAM s ADD CONSTRAINT pos CHECK (a > 0)",
        "1:20 a condition can be added only with a column (Write CHECK after the column: ADD COLUMN c LONG CHECK (c \
         > 0).)",
    );
    check("CREATE STREAM s (a LONG DEFAULT 'x')", "1:33 the default of `a` cannot be 'x': it is LONG");
    check(
        "CREATE STREAM s (a STRING DEFAULT x)",
        "1:35 a default is a constant, and cannot name a field (Write text in single quotes: 'text'.)",
    );
    check(
        "CREATE STREAM s (a STRING DEFAULT NOW)",
        "1:35 the default of `a` cannot be NOW: it is STRING (NOW is a TIMESTAMP, or a LONG of milliseconds since 1970.)",
    );
    check(
        "CREATE STREAM s (a INT DEFAULT 3000000000)",
        "1:32 the default of `a` cannot be 3000000000L: it is INTEGER",
    );
    check(
        "CREATE STREAM s (a INT NOT NULL DEFAULT NULL)",
        "1:41 the default of `a` cannot be NULL: it is INTEGER (Leave the default out, or NOT NULL.)",
    );
    check("CREATE STREAM s (a INT, WATERMARK FOR b AS b)", "1:39 no column `b` (Columns are a.)");
    check(
        "CREATE STREAM s (a INT, WATERMARK FOR a AS a)",
        "1:39 the time of an event cannot be INTEGER (Use a TIMESTAMP, or a LONG of milliseconds since 1970.)",
    );
    check(
        "CREATE STREAM s (a LONG, WATERMARK FOR a AS b)",
        "1:45 a watermark follows the column that it is for (Write `WATERMARK FOR a AS a - INTERVAL '5 seconds'`.)",
    );
    check(
        "CREATE STREAM s (a LONG, WATERMARK FOR a AS a MAX AHEAD 5)",
        "1:57 expected INTERVAL or NONE, found `5` (Write `MAX AHEAD INTERVAL '1 hour'`, or `MAX AHEAD NONE`.)",
    );
    check(
        "CREATE STREAM s (a LONG, WATERMARK FOR a AS a IDLE AFTER 5)",
        "1:58 expected INTERVAL, found `5` (Write `IDLE AFTER INTERVAL '30 seconds'`.)",
    );
    check(
        "CREATE STREAM s (a LONG, WATERMARK FOR a AS a IDLE AFTER INTERVAL '999 ms')",
        "1:58 IDLE AFTER is at least 1 second",
    );
    check(
        "CREATE STREAM s (a LONG PRIMARY KEY)",
        "1:25 a stream has no keys (The position of an event identifies it; views have keys.)",
    );
    check(
        "CREATE STREAM s (a LONG",
        "1:24 expected NOT NULL, DEFAULT, CHECK, PATH, `,` or `)`, found the end of the query",
    );
    check(
        "CREATE STREAM s WITH (retension = '1 day')",
        "1:23 no option `retension` (Did you mean `retention`?)",
    );
    check(
        "CREATE STREAM s (a LONG) WITH (retention = '1 dy', ack = yes)",
        "1:44 `retention` must be a time such as '30 days'; 1:58 `ack` must be none, memory or disk",
    );
    check(
        "CREATE STREAM s WITH (ack = disk)",
        "1:29 `ack = disk` needs a stored stream (Write `store = true` too.)",
    );
    check("CREATE STREAM s WITH (store = true, store = false)", "1:37 option `store` is set twice");
    check(
        "CREATE STREAM s (a LONG, d DOUBLE) WITH (partition_by = (b))",
        "1:57 no column `b` to partition by (Name declared columns.)",
    );
    check(
        "CREATE STREAM s (d DOUBLE) WITH (partition_by = (d))",
        "1:49 a stream cannot be partitioned by `d`, a DOUBLE (Use columns of few values: STRING, BOOLEAN, INTEGER, \
         LONG.)",
    );
    check(
        "CREATE STREAM d (a INT) WITH (partition_by = (a, a))",
        "1:46 `partition_by` names `a` twice (Name each column once.)",
    );
    check(
        "CREATE STREAM s WITH (store = true, partition_by = (day, \"DAY\"))",
        "1:52 `partition_by` names `DAY` twice (Name each column once.)",
    );
    check(
        "ALTER STREAM s SET (partition_by = (a, b, a))",
        "1:36 `partition_by` names `a` twice (Name each column once.)",
    );
    check(
        "CREATE OR REPLACE STREAM s",
        "1:8 an object with data cannot be replaced (Write CREATE … IF NOT EXISTS, or ALTER the existing object.)",
    );
    check(
        "ALTER STREAM s DROP COLUMN a",
        "1:16 columns of a stream are neither dropped nor renamed (Leave it out of your queries; its stored values \
         remain readable.)",
    );
    check(
        "ALTER STREAM s ADDD a INT",
        "1:16 expected ADD, ALTER, SET, RESET, PAUSE, RESUME or SKIP, found `ADDD` (Did you mean ADD?)",
    );
    check("DROP STREAM s x", "1:15 expected the end of the statement, found `x`");
    check(
        "CREATE STREAM s (a LONG CHECK (a > 'x)",
        "1:36 this string is not closed (Close it with `'`; write a `'` inside it twice.)",
    );
}

#[test]
fn what_was_taken_once_is_read_again() {
    let text = "CREATE STREAM d (a INT) WITH (partition_by = (a, a))";
    let kept = crate::parse_kept_ddl(text, &ParseOptions::new(Dialect::Native, 0));
    let Ok(Some(Ddl::CreateStream(create))) = kept else { panic!("{kept:?}") };
    let Ok(Some(Ddl::AlterStream(alter))) = read("ALTER STREAM d ADD b INT") else { panic!() };
    assert_eq!(create.altered(&alter).map(|altered| altered.columns.len()), Ok(2));
}

#[test]
fn altering_keeps_a_declaration_sound() {
    fn altered(create: &str, alter: &str, expected: &str) {
        let Ok(Some(Ddl::CreateStream(create))) = read(create) else { panic!("{create}") };
        let Ok(Some(Ddl::AlterStream(alter))) = read(alter) else { panic!("{alter}: {:?}", read(alter)) };
        let shown = match create.altered(&alter) {
            Ok(altered) => altered.to_string().replace("\n", "").replace("  ", " "),
            Err(error) => error.to_string(),
        };
        assert_eq!(shown, expected, "{alter}");
    }
    let s = "CREATE STREAM s (a INT CHECK (a > 1), b FLOAT NOT NULL DEFAULT 1.5) WITH (ack = disk)";
    altered(
        s,
        "ALTER STREAM s ADD c TEXT",
        "CREATE STREAM s ( a INTEGER CHECK (a > 1), b FLOAT NOT NULL DEFAULT 1.5, c STRING) WITH (ack = disk)",
    );
    altered(
        s,
        "ALTER STREAM s ALTER A TYPE LONG, ALTER b TYPE DOUBLE, RESET (ack), SET (retention = '1 week')",
        "CREATE STREAM s ( a LONG CHECK (a > 1), b DOUBLE NOT NULL DEFAULT 1.5) WITH (retention = '7 days')",
    );
    altered(s, "ALTER STREAM s ALTER a TYPE STRING", "column `a` cannot become STRING: it is INTEGER");
    altered(s, "ALTER STREAM s ALTER c TYPE STRING", "no column `c` in stream `s`");
    altered(s, "ALTER STREAM s ADD B INT", "stream `s` has a column `B` already");
    altered(
        s,
        "ALTER STREAM s ADD IF NOT EXISTS B INT, ALTER b DROP NOT NULL, ALTER b DROP DEFAULT",
        "CREATE STREAM s ( a INTEGER CHECK (a > 1), b FLOAT) WITH (ack = disk)",
    );
    altered(
        s,
        "ALTER STREAM s SET (store = false)",
        "stream `s` cannot be altered so: 4:30: `ack = disk` needs a stored stream\n) WITH (store = false, ack = disk)\n                             ^^^^\nWrite `store = true` too.",
    );
    altered(
        "CREATE STREAM u",
        "ALTER STREAM u ADD a INT",
        "stream `u` declares no columns, so none can be added or altered",
    );
}

#[test]
fn conditions_are_planned_over_the_columns() {
    let text =
        "CREATE STREAM s (a INT PATH 'x.y' CHECK (A > 1), t TEXT, CONSTRAINT c CHECK (t != '' OR a = 2))";
    let Ok(Some(Ddl::CreateStream(create))) = read(text) else { panic!() };
    let conditions = create.conditions().unwrap();
    let shown: Vec<_> = conditions.iter().map(|c| format!("{} {:?} {}", c.label, c.column, c.expr)).collect();
    assert_eq!(shown, ["A > 1 Some(0) a : INTEGER > 1", "c None t : STRING != '' OR a : INTEGER = 2"]);
}

#[test]
fn texts_are_cut_into_statements() {
    fn cut(text: &str, expected: &[(&str, u32, u32)]) {
        let pieces = split_statements(text);
        let shown: Vec<_> = pieces.iter().map(|piece| (piece.text, piece.line, piece.column)).collect();
        assert_eq!(shown, expected, "{text}");
        assert!(pieces.iter().all(|piece| text[piece.start..].starts_with(piece.text)));
    }
    cut("", &[]);
    cut(" ; ;-- a;\n/* ; /* ; */ ; */;", &[]);
    cut("a; b ;\n  c", &[("a", 1, 1), ("b", 1, 4), ("c", 2, 3)]);
    cut(
        "a ';' \";\" `;` $$ ; $$ ''';' /* ; */;é;ü",
        &[("a ';' \";\" `;` $$ ; $$ ''';' /* ; */", 1, 1), ("é", 1, 37), ("ü", 1, 39)],
    );
    cut("a 'b;", &[("a 'b;", 1, 1)]);
    cut("a -- b", &[("a -- b", 1, 1)]);
    cut("$1; - 1 / 2", &[("$1", 1, 1), ("- 1 / 2", 1, 5)]);
}

pub(super) fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z_][a-z0-9_]{0,6}",
        "[A-Za-zäß名.'\"-]{1,6}",
        Just("check".to_owned()),
        Just("Watermark".to_owned()),
        Just("select".to_owned())
    ]
}

fn column_type() -> impl Strategy<Value = Type> {
    let primitive = prop_oneof![
        Just(Type::BOOLEAN),
        Just(Type::INTEGER),
        Just(Type::LONG),
        Just(Type::FLOAT),
        Just(Type::DOUBLE),
        Just(Type::STRING),
        Just(Type::parse("TIMESTAMP").unwrap()),
        Just(Type::parse("TIMESTAMP(NS)").unwrap()),
    ];
    prop_oneof![
        primitive.clone(),
        Just(Type::Any),
        primitive.clone().prop_map(|ty| Type::list(ty).unwrap()),
        primitive.clone().prop_map(|ty| Type::map(ty).unwrap()),
        primitive.prop_map(|ty| Type::list(Type::map(ty).unwrap()).unwrap()),
    ]
}

fn path() -> impl Strategy<Value = Path> {
    use swiftwater_event::Step;
    let step =
        prop_oneof![name().prop_map(|name| Step::Key(name.into())), any::<u32>().prop_map(Step::Index)];
    (name(), prop::collection::vec(step, 0..3))
        .prop_map(|(first, rest)| rest.into_iter().fold(Path::field(first), |path, step| path.then(step)))
}

fn options(columns: bool) -> impl Strategy<Value = StreamOptions> {
    let partition = prop_oneof![Just(PartitionBy::None), Just(PartitionBy::Day), Just(PartitionBy::Hour)];
    let ack = prop_oneof![Just(Ack::None), Just(Ack::Memory), Just(Ack::Disk)];
    let bad = prop_oneof![Just(OnBadEvent::Reject), Just(OnBadEvent::Quarantine)];
    let most = 1..=i64::MAX as u64;
    let size = prop_oneof![
        most.clone(),
        (1u64..5000).prop_map(|n| n << 10),
        (1u64..50).prop_map(|n| n * 86_400_000)
    ];
    (
        prop::option::of(size.clone()),
        prop::option::of(ack),
        prop::option::of(partition),
        prop::option::of(bad),
        prop::option::of(1..=COLUMNS_MAX as u32),
        prop::option::of(size),
    )
        .prop_map(
            move |(retention_ms, ack, partition_by, on_bad_event, columns_max, event_bytes_max)| {
                StreamOptions {
                    store: Some(true),
                    retention_ms,
                    ack,
                    partition_by,
                    on_bad_event,
                    columns_max: columns_max.filter(|_| !columns),
                    event_bytes_max,
                    produce: None,
                }
            },
        )
}

fn column() -> impl Strategy<Value = ColumnDef> {
    (
        name(),
        column_type(),
        prop::option::of(path()),
        any::<bool>(),
        prop::collection::vec(prop::option::of(name()), 0..3),
    )
        .prop_map(|(name, ty, path, not_null, checks)| {
            let text: Box<str> = format!("{} IS NULL OR 'x' != '''' ", print::name_text(&name)).trim().into();
            let checks =
                checks.into_iter().map(|name| Check { name: name.map(Into::into), text: text.clone() });
            ColumnDef { checks: checks.collect(), path, not_null, ..ColumnDef::new(name, ty) }
        })
}

#[test]
fn endpoints_are_declared() {
    check(
        "create endpoint post '/swipe/{direction}/' (direction STRING CHECK (direction IN ('left','right')),
           swiper bigint NOT NULL CHECK ($swiper BETWEEN (1, 50000)) else 404 'user not found', comment VARCHAR(256),
           \"a b\" LONG BODY 'x.y' DEFAULT 1 + 2, q BOOLEAN QUERY, r INT QUERY 'R', t TIMESTAMP DEFAULT NOW, j JSON,
           CONSTRAINT other CHECK (swiper != r))
         INTO swipes SELECT $direction, swiper, CAST(comment AS LONG) + 1 AS n, NOW AS at RETURNING 'ok' AS message
         WITH (status = 202, ack = MEMORY, errors = message, other_fields = ignore);",
        "CREATE ENDPOINT POST '/swipe/{direction}' (\n  direction STRING PATH CHECK (direction IN ('left','right')),\n  \
         swiper LONG NOT NULL CHECK ($swiper BETWEEN (1, 50000)) ELSE 404 'user not found',\n  comment STRING,\n  \
         \"a b\" LONG BODY 'x.y' DEFAULT 1 + 2,\n  q BOOLEAN QUERY,\n  r INTEGER QUERY 'R',\n  t TIMESTAMP DEFAULT NOW,\n  \
         j JSON,\n  CONSTRAINT other CHECK (swiper != r)\n) INTO swipes\n\
         SELECT $direction AS direction, swiper, CAST(comment AS LONG) + 1 AS n, NOW AS at\n\
         RETURNING 'ok' AS message\nWITH (status = 202, ack = memory, errors = message, other_fields = ignore)",
    );
    check(
        "CREATE ENDPOINT IF NOT EXISTS GET '/stats/{userId}' (userId LONG PATH CHECK (userId > 0), CHECK (userId < 9))
         AS SELECT likes AS \"numLlikes\", CASE WHEN $userId = 1 THEN 2 ELSE 3 END AS c, m.x
            FROM stats WHERE swiper = $userId AND likes > 0 ELSE SELECT 0 AS \"numLlikes\", 0 AS c, NULL AS x",
        "CREATE ENDPOINT IF NOT EXISTS GET '/stats/{userId}' (\n  userId LONG PATH CHECK (userId > 0),\n  \
         CHECK (userId < 9)\n) AS\nSELECT likes AS numLlikes, CASE WHEN $userId = 1 THEN 2 ELSE 3 END AS c, m.x AS x \
         FROM stats WHERE swiper = $userId AND likes > 0\n\
         ELSE SELECT 0 AS numLlikes, 0 AS c, NULL AS x",
    );
    check(
        "CREATE ENDPOINT GET '/top/{a}' (a STRING, n LONG) AS SELECT b FROM v WHERE a = $a LIMIT 5 ELSE 404 'it''s none' \
         WITH (answer = rows)",
        "CREATE ENDPOINT GET '/top/{a}' (\n  a STRING PATH,\n  n LONG\n) AS\nSELECT b FROM v WHERE a = $a LIMIT 5\n\
         ELSE 404 'it''s none'\nWITH (answer = rows)",
    );
    check(
        "CREATE ENDPOINT GET '/health' AS SELECT 'up' AS status",
        "CREATE ENDPOINT GET '/health' AS\nSELECT 'up' AS status",
    );
    check(
        "CREATE ENDPOINT POST '/e' INTO s WITH (ack = disk)",
        "CREATE ENDPOINT POST '/e' INTO s\nWITH (ack = disk)",
    );
    check("drop endpoint if exists get '/a/'", "DROP ENDPOINT IF EXISTS GET '/a'");
    check("SHOW ENDPOINTS", "SHOW ENDPOINTS");
    check("SHOW CREATE ENDPOINT POST '/a/{b}'", "SHOW CREATE ENDPOINT POST '/a/{b}'");
    check("DESC ENDPOINT GET '/a'", "DESCRIBE ENDPOINT GET '/a'");
}

#[test]
fn faults_of_endpoints_have_places_and_hints() {
    for (text, expected) in [
        (
            "PUT '/a' INTO s",
            "1:17 expected GET or POST, found `PUT` (The methods of endpoints are GET (with HEAD) and POST.)",
        ),
        ("GET 'a' AS SELECT 1 AS a", "1:21 `a` cannot be an endpoint's path: a path must begin with `/`"),
        ("GET '/' AS SELECT 1 AS a", "1:21 `/` cannot be an endpoint's path: `/` is reserved for the server"),
        (
            "GET '/v1/x' AS SELECT 1 AS a",
            "1:21 `/v1/x` cannot be an endpoint's path: `/v1` is reserved for the server",
        ),
        (
            "GET '/a//b' AS SELECT 1 AS a",
            "1:21 `/a//b` cannot be an endpoint's path: a segment of a path cannot be empty",
        ),
        (
            "GET '/a/x{b}' AS SELECT 1 AS a",
            "1:21 `/a/x{b}` cannot be an endpoint's path: `{` must enclose a whole segment: `/{name}/`",
        ),
        (
            "GET '/{a}/{a}' AS SELECT 1 AS a",
            "1:21 `/{a}/{a}` cannot be an endpoint's path: `{a}` occurs twice in the path",
        ),
        (
            "GET '/{a}' AS SELECT 1 AS a",
            "1:17 `a` is in the path, and is not declared (Declare it: (a STRING, …).)",
        ),
        (
            "GET '/a' INTO s",
            "1:26 expected AS, found `INTO` (GET returns rows: AS SELECT … FROM view WHERE key = $parameter.)",
        ),
        (
            "GET '/a' (b LONG BODY) AS SELECT 1 AS a",
            "1:34 a GET has no body (Write QUERY, or make it a POST.)",
        ),
        (
            "GET '/a' (b JSON) AS SELECT 1 AS a",
            "1:27 a parameter of a path or query string cannot be ANY (Send it in the body of a POST.)",
        ),
        (
            "GET '/a' (b LONG PATH) AS SELECT 1 AS a",
            "1:34 `b` is not in the path (Write `{b}` for one of its segments.)",
        ),
        ("GET '/a' (b LONG, B LONG) AS SELECT 1 AS a", "1:35 parameter `B` is declared twice"),
        ("POST '/a' (b LONG CHECK (c > 1)) INTO s", "1:42 there is no parameter `c`"),
        ("POST '/a' (b LONG CHECK (b + 1)) INTO s", "1:42 CHECK needs a condition, and this is LONG"),
        ("POST '/a' (b LONG CHECK (b > 1) ELSE 500) INTO s", "1:54 a refusal has a status from 400 to 499"),
        ("POST '/a' (b LONG DEFAULT 'x') INTO s", "1:43 the default of `b` cannot be 'x': it is LONG"),
        ("POST '/a' (b LONG) INTO s SELECT $c", "1:50 there is no parameter `$c`"),
        ("POST '/a' (b LONG) INTO s SELECT b + 1", "1:50 this column has no name (Name it with AS.)"),
        (
            "POST '/a' (b LONG) INTO s SELECT b, 1 AS b",
            "1:53 two columns are named `b` (Rename one of them with AS.)",
        ),
        ("POST '/a' (b LONG) INTO s WITH (answer = rows)", "1:58 `answer` is for endpoints of GET"),
        (
            "POST '/a' INTO s WITH (other_fields = ignore)",
            "0:0 all events of this endpoint would be empty (Declare parameters, or leave `other_fields` out.)",
        ),
        ("GET '/a' (b LONG) AS SELECT x FROM v WHERE k = $c", "1:64 there is no parameter `$c`"),
        (
            "GET '/a' (user LONG) AS SELECT x FROM v WHERE k = $usr",
            "1:67 there is no parameter `$usr` (Did you mean $user?)",
        ),
        (
            "GET '/a' AS SELECT COUNT(*) AS n FROM v",
            "1:36 an aggregate is not allowed here (Aggregate in the view. POST /v1/sql runs any query.)",
        ),
        ("GET '/a' AS SELECT * FROM v", "1:36 `*` is not allowed here (Name the columns.)"),
        (
            "GET '/a' AS SELECT x FROM v ORDER BY x",
            "1:45 ORDER is not allowed here (Rows are in the order of their keys. POST /v1/sql runs any query.)",
        ),
        (
            "GET '/a' AS SELECT x FROM STREAM(s)",
            "1:43 an endpoint reads a view, not a stream (CREATE MATERIALIZED VIEW … AS SELECT … FROM STREAM(…) GROUP BY key.)",
        ),
        ("GET '/a' AS SELECT x FROM v LIMIT 20000", "1:51 an endpoint answers with at most 10000 rows"),
        (
            "GET '/a' AS SELECT 1 AS x ELSE 404",
            "1:43 ELSE needs a FROM: without one there is always a row (Write ELSE after FROM view WHERE ….)",
        ),
        ("GET '/a' AS SELECT 1 AS x WITH (status = 404)", "1:58 `status` must be a number from 200 to 299"),
    ] {
        check(&format!("CREATE ENDPOINT {text}"), expected);
    }
    check("ALTER ENDPOINT GET '/a'", "1:7 an endpoint cannot be altered (Drop it, and create it again.)");
    check("CREATE ENDPIONT GET '/a'", "1:8 there is no CREATE ENDPIONT (Did you mean CREATE ENDPOINT?)");
}

proptest! {
    #[test]
    fn normal_form_reads_back_as_the_same(
        columns in prop::collection::vec(column(), 0..6),
        if_not_exists: bool,
        undeclared in options(false),
        declared in options(true),
        bounds in prop::option::of((
            0u64..10_000_000,
            prop::option::of(1u64..10_000_000),
            prop::option::of(1000u64..10_000_000),
        )),
    ) {
        let mut columns = columns;
        let mut seen = std::collections::HashSet::new();
        columns.retain(|column| seen.insert(column.name.to_lowercase()));
        let time = columns.iter().find(|column| matches!(&column.ty, Type::Primitive(swiftwater_event::Primitive::Long)));
        let watermark = time.zip(bounds).map(|(column, (lateness_ms, max_ahead_ms, idle_after_ms))| {
            Watermark { column: column.name.clone(), lateness_ms, max_ahead_ms, idle_after_ms }
        });
        let options = if columns.is_empty() { undeclared } else { declared };
        let name = StreamName::new("a-b").unwrap();
        let ddl = Ddl::CreateStream(CreateStream { name, if_not_exists, columns, checks: Vec::new(), watermark, source: None, options });
        let text = ddl.to_string();
        prop_assert_eq!(read(&text), Ok(Some(ddl)), "{}", text);
    }

    #[test]
    fn produced_streams_read_back_as_the_same(
        key in prop::option::of((path(), prop::option::of(prop_oneof![
            Just(SourcePartitioner::Murmur2),
            Just(SourcePartitioner::Crc32),
            Just(SourcePartitioner::Unknown),
        ]))),
        produce in prop::option::of(any::<bool>()),
        event_bytes_max in prop::option::of(1..=i64::MAX as u64),
    ) {
        let mut source = KafkaSource { topic: "t".into(), options: KafkaOptions::default(), is_paused: false };
        let produce = produce.filter(|produce| {
            !produce || !matches!(key, Some((_, Some(SourcePartitioner::Unknown))))
        });
        if let Some((key, partitioner)) = key {
            source.options.key = Some(key);
            source.options.partitioner = partitioner;
        }
        let options = StreamOptions { produce, event_bytes_max, ..StreamOptions::default() };
        let ddl = Ddl::CreateStream(CreateStream {
            name: StreamName::new("s").unwrap(),
            if_not_exists: false,
            columns: Vec::new(),
            checks: Vec::new(),
            watermark: None,
            source: Some(source),
            options,
        });
        let text = ddl.to_string();
        prop_assert_eq!(read(&text), Ok(Some(ddl.clone())), "{}", text);
        // As a catalog and the cluster read it.
        let kept = crate::parse_kept_ddl(&text, &ParseOptions::new(Dialect::Native, 0));
        prop_assert_eq!(kept, Ok(Some(ddl)), "{}", text);
    }

    #[test]
    fn durations_and_sizes_read_back(number in 1..=i64::MAX as u64) {
        prop_assert_eq!(parse_duration_ms(&options::DurationText(number).to_string()), Some(number));
    }

    #[test]
    fn no_text_panics(words in prop::collection::vec(prop_oneof![
        Just("CREATE"), Just("STREAM"), Just("s"), Just("("), Just(")"), Just(","), Just("a"), Just("INT"), Just("CHECK"),
        Just("WITH"), Just("="), Just("store"), Just("true"), Just("ALTER"), Just("JOB"), Just("AS"), Just("$$"), Just(";"),
        Just("WATERMARK"), Just("FOR"), Just("'x'"), Just("SCHEDULE"), Just("IF"), Just("NOT"), Just("EXISTS"), Just("DEFAULT"),
        Just("-"), Just("INTERVAL"), Just("\""), Just("é"), Just("NULL"), Just("SHOW"), Just("DESCRIBE"), Just("DROP"), Just("1"),
        Just("ENDPOINT"), Just("GET"), Just("POST"), Just("INTO"), Just("SELECT"), Just("ELSE"), Just("$a"), Just("$"),
        Just("FROM"), Just("WHERE"), Just("BODY"), Just("QUERY"), Just("'/b'"), Just("RETURNING"), Just("404"),
    ], 0..14), start in 0usize..6) {
        let head = [
            "",
            "CREATE STREAM s (a LONG",
            "ALTER STREAM s ",
            "CREATE JOB j SCHEDULE 'x' AS",
            "CREATE ENDPOINT POST '/a/{a}' (a LONG",
            "CREATE ENDPOINT GET '/a' AS SELECT a FROM v ",
        ][start];
        let text = format!("{head} {}", words.join(" "));
        if let Ok(Some(ddl)) = read(&text) {
            prop_assert_eq!(read(&ddl.to_string()), Ok(Some(ddl)), "{}", text);
        }
        split_statements(&text);
    }
}

#[test]
fn a_watermark_without_max_ahead_has_an_hour_and_an_old_one_has_none() {
    let options = ParseOptions::new(Dialect::Native, 0);
    let of = |ddl: Option<Ddl>| match ddl {
        Some(Ddl::CreateStream(create)) => create.watermark.map(|watermark| watermark.max_ahead_ms),
        _ => None,
    };
    let text = |rest: &str| format!("CREATE STREAM s (a LONG, WATERMARK FOR a AS a{rest})");
    let cases = [
        ("", Some(MAX_AHEAD_MS_DEFAULT), None),
        (" - INTERVAL '5 seconds' MAX AHEAD INTERVAL '2 minutes'", Some(120_000), Some(120_000)),
        (" MAX AHEAD NONE", None, None),
    ];
    for (rest, new, kept) in cases {
        let read = parse_ddl(&text(rest), &options).unwrap();
        assert_eq!(of(read.clone()), Some(new), "{rest}");
        assert_eq!(of(parse_kept_ddl(&text(rest), &options).unwrap()), Some(kept), "{rest}");
        // The normal form says it, so what is kept now reads back as the same.
        let normal = read.clone().unwrap().to_string();
        assert_eq!(parse_kept_ddl(&normal, &options).unwrap(), read, "{normal}");
    }
}
