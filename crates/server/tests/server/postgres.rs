//! Tests PostgreSQL's protocol, with the real `psql` where it is available, and with handwritten messages everywhere.

#![allow(clippy::print_stdout, reason = "what is skipped is said")]

use std::{
    io::Write,
    process::{Command, Output, Stdio},
};

use hyper::StatusCode;
use swiftwater_engine::EngineConfig;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    client::{Running, soon},
    sql::access,
};

async fn start() -> (Running, u16) {
    let change = |config: &mut swiftwater_server::ServerConfig| {
        config.postgres_listen = Some("127.0.0.1:0".parse().unwrap());
    };
    let server = Running::with_sql(EngineConfig::default(), change, Some(access())).await;
    let port = server.postgres.unwrap().port();
    (server, port)
}

/// Runs a program elsewhere; none, with a line that says so, where it cannot be had.
async fn program(name: &'static str, arguments: Vec<String>, input: String) -> Option<Output> {
    let ran = tokio::task::spawn_blocking(move || {
        let mut command = Command::new(name);
        command.args(arguments).env("PGCONNECT_TIMEOUT", "20").env_remove("PGHOST").stdin(Stdio::piped());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let mut stdin = child.stdin.take().unwrap();
        // A process that wants no input does not read it.
        let writer = std::thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
        let output = child.wait_with_output();
        writer.join().unwrap();
        output
    });
    match soon(ran).await.unwrap() {
        Ok(output) => Some(output),
        Err(error) => {
            println!("skipped: 1 test, `{name}` cannot be had: {error}");
            None
        }
    }
}

async fn psql(port: u16, text: &str) -> Option<(bool, String, String)> {
    psql_with(port, text, "").await
}

async fn psql_with(port: u16, text: &str, input: &str) -> Option<(bool, String, String)> {
    let connection = format!("host=127.0.0.1 port={port} user=anyone dbname=swiftwater");
    let arguments = ["-X", "-A", "-d", &connection, "-c", text].map(str::to_owned);
    let output = program("psql", arguments.to_vec(), input.to_owned()).await?;
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    Some((output.status.success(), text(&output.stdout), text(&output.stderr)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn psql_asks_and_is_answered() {
    let (_server, port) = start().await;
    let text = "SELECT value AS v, value * 0.5 AS half, CASE WHEN value = 1 THEN NULL ELSE 'x' END AS t, \
                value = 1 AS b, TIMESTAMP '2026-01-31 12:00:00' AS at, [value, NULL] AS l \
                FROM range(0, 2) ORDER BY v";
    let Some((is_good, out, _)) = psql(port, text).await else { return };
    assert!(is_good);
    assert_eq!(
        out,
        "v|half|t|b|at|l\n0|0.0|x|f|2026-01-31 12:00:00|{0,NULL}\n\
         1|0.5||t|2026-01-31 12:00:00|{1,NULL}\n(2 rows)\n"
    );
    let (is_good, out, error) = psql(port, "SELECT 1 AS a;\nSELECT nope FROM range(0, 2)").await.unwrap();
    assert!(!is_good);
    assert!(out.contains("(1 row)"), "{out}");
    assert!(error.contains("ERROR:  no column `nope`") && error.contains("LINE 2: SELECT nope"), "{error}");
    assert!(error.contains("HINT:  Columns are: value."), "{error}");
    let (is_good, out, _) = psql(port, "BEGIN; SELECT 2 AS b; COMMIT").await.unwrap();
    assert!(is_good && out.contains("b\n2\n(1 row)"), "{out}");
    let (is_good, out, _) =
        psql(port, "SELECT count(*) AS n, sum(value) AS s FROM range(0, 300000)").await.unwrap();
    assert!(is_good && out.contains("300000|44999850000"), "{out}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn psql_lists_and_describes() {
    let directory = tempfile::tempdir().unwrap();
    let change = |config: &mut swiftwater_server::ServerConfig| {
        config.postgres_listen = Some("127.0.0.1:0".parse().unwrap());
    };
    let server = Running::storing(directory.path(), change).await;
    let port = server.postgres.unwrap().port();
    let Some((is_good, out, _)) = psql(port, "\\d").await else { return };
    assert!(is_good && !out.contains("|table|") && !out.contains("|stream|"), "{out}");
    for text in
        ["CREATE STREAM clicks (page STRING NOT NULL, \"odd'one\" LONG)", "CREATE TABLE prices (id BIGINT)"]
    {
        let (is_good, _, error) = psql(port, text).await.unwrap();
        assert!(is_good, "{error}");
    }
    let asked = async |text: &str| {
        let (is_good, out, error) = psql(port, text).await.unwrap();
        assert!(is_good && error.is_empty(), "{text}: {out}{error}");
        out
    };
    for (list, row) in [
        ("\\l", "swiftwater|swiftwater|UTF8|C|C"),
        ("\\dn", "public|swiftwater"),
        // Newer versions do not ask for the groups of a role.
        ("\\du", "swiftwater|Superuser"),
        ("\\du+", "swiftwater|Superuser"),
    ] {
        let out = asked(list).await;
        assert!(out.contains(&format!("\n{row}")), "{list}: {out}");
        assert!(out.matches('\n').count() >= 3, "{list}: {out}");
    }
    assert!(asked("\\dn pub*").await.contains("public"));
    assert!(!asked("\\dn priv*").await.contains("public"));
    for list in ["\\d", "\\dt", "\\dt+"] {
        let out = asked(list).await;
        assert!(
            out.contains("public|clicks|stream|swiftwater\npublic|prices|table|swiftwater\n(2 rows)"),
            "{out}"
        );
    }
    let out = asked("\\dt pri*").await;
    assert!(out.contains("prices") && !out.contains("clicks"), "{out}");
    for described in ["\\d clicks", "\\d+ clicks"] {
        let out = asked(described).await;
        assert!(out.contains("Table \"public.clicks\"\nColumn|Type|"), "{out}");
        assert!(
            out.contains("\n_offset|bigint||not null|") && out.contains("\npage|varchar||not null|"),
            "{out}"
        );
        assert!(out.contains("\nodd'one|bigint|||"), "{out}");
    }
    let (_, _, error) = psql(port, "\\d nothing").await.unwrap();
    assert!(error.contains("Did not find any relation named \"nothing\""), "{error}");
    let (is_good, _, error) = psql(port, "SELECT * FROM pg_catalog.pg_class").await.unwrap();
    assert!(!is_good && error.contains("pg_class"), "{error}");
}

/// The questions that Grafana asks a data source, in its own words.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grafana_finds_version_tables_and_columns() {
    let directory = tempfile::tempdir().unwrap();
    let change = |config: &mut swiftwater_server::ServerConfig| {
        config.postgres_listen = Some("127.0.0.1:0".parse().unwrap());
    };
    let server = Running::storing(directory.path(), change).await;
    let port = server.postgres.unwrap().port();
    let made = "CREATE STREAM clicks (page STRING NOT NULL, n LONG, share DOUBLE, ok BOOLEAN, at TIMESTAMP); \
                CREATE TABLE \"Prices\" (id BIGINT, price DECIMAL(10, 2), tags VARCHAR[])";
    let mut stream = connect(port).await;
    kinds(&mut stream).await;
    let mut asked = async |text: &str| rows(&mut stream, text).await;
    for statement in made.split(';') {
        asked(statement).await;
    }
    assert_eq!(asked("SELECT current_setting('server_version_num')::int as version").await, ["160000"]);
    assert_eq!(asked("SELECT current_setting('server_version_num')::int/100 as version").await, ["1600"]);
    assert_eq!(asked("SHOW server_version_num").await, ["160000"]);
    assert!(asked("SELECT extversion FROM pg_extension WHERE extname = 'timescaledb'").await.is_empty());
    assert!(asked("SELECT pg_catalog.version()").await[0].starts_with("PostgreSQL 16.0 (Swiftwater"));
    let schema = |column: &str| {
        format!(
            "quote_ident({column}) IN (
          SELECT
            CASE WHEN trim(s[i]) = '\"$user\"' THEN user ELSE trim(s[i]) END
          FROM
            generate_series(
              array_lower(string_to_array(current_setting('search_path'),','),1),
              array_upper(string_to_array(current_setting('search_path'),','),1)
            ) as i,
            string_to_array(current_setting('search_path'),',') s
          )"
        )
    };
    let tables = format!(
        "select quote_ident(table_name) as \"table\" from information_schema.tables
    where quote_ident(table_schema) not in ('information_schema',
                             'pg_catalog',
                             '_timescaledb_cache',
                             'timescaledb_experimental')
      and {} and table_type = 'BASE TABLE' ORDER BY 1",
        schema("table_schema")
    );
    assert_eq!(asked(&tables).await, ["\"Prices\"", "clicks"]);
    let columns = format!(
        "select quote_ident(column_name) as \"column\", data_type as \"type\" from information_schema.columns \
         where {} and quote_ident(table_name) = 'clicks' and column_name not like '\\_%'",
        schema("table_schema")
    );
    let told =
        ["page,text", "n,bigint", "share,double precision", "ok,boolean", "at,timestamp with time zone"];
    assert_eq!(asked(&columns).await, told);
    let prices = "select quote_ident(column_name), data_type, numeric_scale, udt_name, ordinal_position \
                  from information_schema.columns where quote_ident(table_name) = '\"Prices\"'";
    assert_eq!(
        asked(prices).await,
        ["id,bigint,0,int8,1", "price,numeric,2,numeric,2", "tags,ARRAY,,_text,3"]
    );
    let nullable = "select column_name, is_nullable from information_schema.columns \
                    where table_name = 'clicks' and column_name in ('page', 'n') order by ordinal_position";
    assert_eq!(asked(nullable).await, ["page,NO", "n,YES"]);
    let described = asked("DESCRIBE clicks").await;
    assert!(described.contains(&"page,VARCHAR,NO".to_owned()), "{described:?}");
    assert!(described.contains(&"n,BIGINT,YES".to_owned()), "{described:?}");
    let of_session = "SELECT current_database(), current_schema(), current_user, session_user, user, \
                      pg_typeof(1), pg_backend_pid() > 0";
    assert_eq!(asked(of_session).await, ["swiftwater,public,swiftwater,swiftwater,swiftwater,bigint,t"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn psql_copies_both_ways() {
    let directory = tempfile::tempdir().unwrap();
    let change = |config: &mut swiftwater_server::ServerConfig| {
        config.postgres_listen = Some("127.0.0.1:0".parse().unwrap());
    };
    let server = Running::storing(directory.path(), change).await;
    let port = server.postgres.unwrap().port();
    let made = "CREATE STREAM visits (page STRING NOT NULL, n LONG, at TIMESTAMP); CREATE TABLE prices (id BIGINT, name VARCHAR)";
    let Some((is_good, _, error)) = psql(port, made).await else { return };
    assert!(is_good, "{error}");
    let rows = "page,n,at\n/,1,2026-01-31 12:00:00+00\n\"/a,\"\"b\"\"\",,\n";
    let file = directory.path().join("visits.csv");
    std::fs::write(&file, rows).unwrap();
    for (text, input) in [
        ("COPY visits FROM STDIN (FORMAT csv, HEADER)", rows),
        ("\\copy visits from pstdin csv header", rows),
        (&format!("\\copy visits from '{}' with (format csv, header)", file.display()), ""),
    ] {
        let (is_good, out, error) = psql_with(port, text, input).await.unwrap();
        assert!(is_good && out.trim_end() == "COPY 2", "{text}: {out}{error}");
    }
    let (is_good, out, error) = psql(
        port,
        "COPY (SELECT page, count(*) AS n FROM visits GROUP BY page ORDER BY page) TO STDOUT CSV HEADER",
    )
    .await
    .unwrap();
    assert!(is_good, "{error}");
    assert_eq!(out, "page,n\n/,3\n\"/a,\"\"b\"\"\",3\n");
    let (is_good, _, error) =
        psql_with(port, "COPY prices FROM STDIN", "1\tone\\ttab\n2\t\\N\n\\.\n").await.unwrap();
    assert!(is_good, "{error}");
    let (is_good, out, error) = psql(port, "COPY prices TO STDOUT").await.unwrap();
    assert!(is_good, "{error}");
    let mut lines: Vec<&str> = out.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["1\tone\\ttab", "2\t\\N"]);
    let (is_good, _, error) = psql_with(port, "COPY prices FROM STDIN", "3\tx\nfour\tx\n").await.unwrap();
    assert!(!is_good && error.contains("line 2, column `id`: `four` is not a valid BIGINT"), "{error}");
    let (is_good, _, error) =
        psql(port, "SELECT 1;\nCOPY (SELECT nope FROM prices) TO STDOUT").await.unwrap();
    assert!(!is_good && error.contains("LINE 2: COPY (SELECT nope"), "{error}");
    let (is_good, out, _) = psql(port, "SELECT count(*) AS n FROM prices").await.unwrap();
    assert!(is_good && out.contains("n\n2\n"), "{out}");
}

/// A message with its kind and length.
fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as i32 + 4).to_be_bytes();
    [&[kind][..], &length, body].concat()
}

async fn connect(port: u16) -> TcpStream {
    connect_with(port, "user\0x\0\0").await
}

async fn connect_with(port: u16, settings: &str) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let body = [&196_608_i32.to_be_bytes()[..], settings.as_bytes()].concat();
    let length = (body.len() as i32 + 4).to_be_bytes();
    stream.write_all(&[&length[..], &body].concat()).await.unwrap();
    stream
}

/// Kinds of the messages up to the next ReadyForQuery.
async fn kinds(stream: &mut TcpStream) -> String {
    let mut kinds = String::new();
    loop {
        let kind = soon(stream.read_u8()).await.unwrap();
        let length = soon(stream.read_i32()).await.unwrap();
        let mut body = vec![0; length as usize - 4];
        soon(stream.read_exact(&mut body)).await.unwrap();
        kinds.push(char::from(kind));
        if kind == b'Z' {
            return kinds;
        }
    }
}

/// The rows that a simple query is answered with, columns set apart by commas, nulls as nothing.
async fn rows(stream: &mut TcpStream, text: &str) -> Vec<String> {
    match answer(stream, text).await {
        (rows, None) => rows,
        (_, Some(error)) => panic!("{text}: {error}"),
    }
}

/// Reads an answer as [`rows`] does, with the fields of the error if there is one.
async fn answer(stream: &mut TcpStream, text: &str) -> (Vec<String>, Option<String>) {
    stream.write_all(&message(b'Q', &[text.as_bytes(), b"\0"].concat())).await.unwrap();
    let (mut rows, mut error) = (Vec::new(), None);
    loop {
        let kind = soon(stream.read_u8()).await.unwrap();
        let length = soon(stream.read_i32()).await.unwrap();
        let mut body = vec![0; length as usize - 4];
        soon(stream.read_exact(&mut body)).await.unwrap();
        match kind {
            b'Z' => return (rows, error),
            b'E' => error = Some(String::from_utf8_lossy(&body).replace('\0', " ")),
            b'D' => {
                let mut rest = &body[2..];
                let mut cells = Vec::new();
                while !rest.is_empty() {
                    let length = i32::from_be_bytes(rest[..4].try_into().unwrap());
                    let (cell, after) = rest[4..].split_at(usize::try_from(length).unwrap_or(0));
                    cells.push(String::from_utf8(cell.to_vec()).unwrap());
                    rest = after;
                }
                rows.push(cells.join(","));
            }
            _ => {}
        }
    }
}

/// The fields of the error that a connection ends with, on shutdown.
async fn last_error(stream: &mut TcpStream) -> String {
    let mut rest = Vec::new();
    soon(stream.read_to_end(&mut rest)).await.unwrap();
    String::from_utf8_lossy(&rest).replace('\0', " ")
}

#[tokio::test(flavor = "multi_thread")]
async fn error_is_placed_in_the_statement_at_fault_whatever_else_has_its_text() {
    let directory = tempfile::tempdir().unwrap();
    let change = |config: &mut swiftwater_server::ServerConfig| {
        config.postgres_listen = Some("127.0.0.1:0".parse().unwrap());
    };
    let server = Running::storing(directory.path(), change).await;
    let port = server.postgres.unwrap().port();
    for text in [
        // The second of two equal statements fails.
        "CREATE TABLE t (a BIGINT); SELECT a FROM t; DROP TABLE t; SELECT a FROM ^t",
        "/* SELECT nope */ SELECT ^nope",
        "SELECT 'SELECT nope' AS a; SELECT ^nope",
        "-- SELECT nope\n  SELECT\n ^nope; SELECT nope",
        "SELECT 'ä'; /* ä SELECT nope */\nSELECT ^nope",
    ] {
        let place = text.chars().position(|char| char == '^').unwrap() + 1;
        let mut stream = connect(port).await;
        kinds(&mut stream).await;
        let error = answer(&mut stream, &text.replace('^', "")).await.1.expect(text);
        assert!(error.contains(&format!(" P{place} ")), "{text}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_are_told_that_the_server_ends_and_long_statements_are_ended() {
    let change = |config: &mut swiftwater_server::ServerConfig| {
        config.postgres_listen = Some("127.0.0.1:0".parse().unwrap());
        config.shutdown_grace_ms = 200;
    };
    let mut server = Running::with_sql(EngineConfig::default(), change, Some(access())).await;
    let port = server.postgres.unwrap().port();
    let mut idle = connect(port).await;
    assert!(kinds(&mut idle).await.ends_with('Z'));
    let mut busy = connect(port).await;
    kinds(&mut busy).await;
    let long = "SELECT count(*) FROM generate_series(1, 4000000000) AS a, generate_series(1, 1000) AS b";
    busy.write_all(&message(b'Q', &[long.as_bytes(), b"\0"].concat())).await.unwrap();
    let mut client = server.client().await;
    let of_http = tokio::spawn(async move { client.send("POST", "/v1/sql", &[], long).await });
    soon(async {
        while server.get("/v1/sql").await.text().await.matches("generate_series").count() < 2 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    server.begin_stop();
    let told = last_error(&mut idle).await;
    assert!(told.contains("FATAL") && told.contains("57P01"), "{told}");
    let told = last_error(&mut busy).await;
    assert!(
        told.contains("SERROR") && told.contains("FATAL") && told.matches("57P01").count() == 2,
        "{told}"
    );
    let problem = soon(of_http).await.unwrap().problem(StatusCode::SERVICE_UNAVAILABLE, "unavailable").await;
    assert_eq!(problem["detail"], "the server is shutting down");
    server.stopped().await;
}

#[tokio::test]
async fn statement_that_takes_longer_than_its_session_lets_it_is_ended() {
    const ENDLESS: &str =
        "SELECT count(*) FROM range(0, 1000000000) a, range(0, 1000000000) b WHERE a.value + b.value = -1";
    let (_server, port) = start().await;
    let mut stream = connect(port).await;
    kinds(&mut stream).await;
    assert_eq!(rows(&mut stream, "SET statement_timeout = 700; SHOW statement_timeout").await, ["700ms"]);
    let (rows_before, error) = answer(&mut stream, ENDLESS).await;
    assert!(rows_before.is_empty());
    let error = error.unwrap();
    assert!(error.contains("C57014 "), "{error}");
    assert!(error.contains("the statement took longer than statement_timeout, 700ms"), "{error}");
    // The session goes on, and what is quick is answered.
    assert_eq!(rows(&mut stream, "SELECT 1").await, ["1"]);
    let (_, error) = answer(&mut stream, "SET statement_timeout = 'soon'").await;
    assert!(error.unwrap().contains("C22023 "));
    assert_eq!(
        rows(&mut stream, "BEGIN; SET LOCAL statement_timeout = '2 min'; SHOW statement_timeout").await,
        ["2min"]
    );
    assert_eq!(rows(&mut stream, "COMMIT; SHOW statement_timeout").await, ["700ms"]);
    assert_eq!(
        rows(&mut stream, "RESET ALL; SHOW statement_timeout; SELECT count(*) FROM range(0, 10)").await,
        ["0", "10"]
    );
    // As drivers ask for it when they connect.
    let mut stream = connect_with(port, "user\0x\0options\0-c statement_timeout=60\0\0").await;
    kinds(&mut stream).await;
    let (_, error) = answer(&mut stream, ENDLESS).await;
    assert!(error.unwrap().contains("statement_timeout, 60ms"));
    let mut odd = connect_with(port, "user\0x\0statement_timeout\0soon\0\0").await;
    let mut told = Vec::new();
    let _ = soon(odd.read_to_end(&mut told)).await;
    assert!(String::from_utf8_lossy(&told).contains("`soon` is not a valid value of statement_timeout"));
}

#[tokio::test]
async fn messages_come_in_the_order_of_the_protocol() {
    let (server, port) = start().await;
    let mut stream = connect(port).await;
    assert_eq!(kinds(&mut stream).await, "RSSSSSSSSKZ");
    stream.write_all(&message(b'Q', b"SELECT 1 AS a; SELECT 2 AS b\0")).await.unwrap();
    assert_eq!(kinds(&mut stream).await, "TDCTDCZ");
    stream.write_all(&message(b'Q', b" ; \0")).await.unwrap();
    assert_eq!(kinds(&mut stream).await, "IZ");
    // Parse, Bind, Describe and Execute of two rows, a row at a time.
    let mut all = message(b'P', b"s\0SELECT value FROM range(0, 2)\0\0\0");
    all.extend(message(b'B', b"\0s\0\0\0\0\0\0\0"));
    all.extend(message(b'D', b"P\0"));
    all.extend(message(b'E', b"\0\0\0\0\x01"));
    all.extend(message(b'E', b"\0\0\0\0\x01"));
    all.extend(message(b'E', b"\0\0\0\0\x01"));
    all.extend(message(b'S', b""));
    stream.write_all(&all).await.unwrap();
    assert_eq!(kinds(&mut stream).await, "12TDsDsCZ");
    // After an error everything up to Sync is passed over.
    let mut all = message(b'P', b"\0SELECT nope\0\0\0");
    all.extend(message(b'B', b"\0\0\0\0\0\0\0\0"));
    all.extend(message(b'E', b"\0\0\0\0\0"));
    all.extend(message(b'E', b"\0\0\0\0\0"));
    all.extend(message(b'S', b""));
    stream.write_all(&all).await.unwrap();
    assert_eq!(kinds(&mut stream).await, "12EZ");
    // Bytes that are not the protocol end the connection, and nothing else.
    let mut odd = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    odd.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let mut rest = Vec::new();
    let _ = soon(odd.read_to_end(&mut rest)).await;
    stream.write_all(&message(b'Q', b"SELECT 3\0")).await.unwrap();
    assert_eq!(kinds(&mut stream).await, "TDCZ");
    drop(stream);
    drop(server);
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_connections_keep_nobody_out() {
    let (_server, port) = start().await;
    let mut silent = Vec::new();
    // More than may have said nothing; what a process of tests may have open is not much more.
    for _ in 0..220 {
        silent.push(TcpStream::connect(("127.0.0.1", port)).await.unwrap());
    }
    let mut stream = connect(port).await;
    assert!(kinds(&mut stream).await.ends_with('Z'));
    assert_eq!(rows(&mut stream, "SELECT 1").await, ["1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn session_too_many_is_told_so() {
    let (_server, port) = start().await;
    let mut sessions = Vec::new();
    for _ in 0..200 {
        let mut stream = connect(port).await;
        kinds(&mut stream).await;
        sessions.push(stream);
    }
    let mut refused = connect(port).await;
    let error = last_error(&mut refused).await;
    assert!(error.contains("53300") && error.contains("200 sessions"), "{error}");
    // A place that is left is taken by the next.
    drop(sessions.pop());
    soon(async {
        loop {
            let mut stream = connect(port).await;
            let kind = soon(stream.read_u8()).await.unwrap();
            if kind == b'R' {
                break;
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn portals_share_their_statement_and_hold_no_more_than_all_may() {
    let change = |config: &mut swiftwater_server::ServerConfig| {
        config.postgres_listen = Some("127.0.0.1:0".parse().unwrap());
        config.unfinished_bytes_max = 8 << 20;
    };
    let server = Running::with_sql(EngineConfig::default(), change, Some(access())).await;
    let mut stream = connect(server.postgres.unwrap().port()).await;
    kinds(&mut stream).await;
    let text = format!("SELECT $1 -- {}", "x".repeat(4 << 20));
    let parse = message(b'P', &[b"s\0", text.as_bytes(), b"\0\0\0"].concat());
    let bind = |portal: usize, value: &[u8]| {
        let length = (value.len() as i32).to_be_bytes();
        let values = [&[0, 0, 0, 1][..], &length, value, &[0, 0]].concat();
        message(b'B', &[format!("{portal}\0s\0").as_bytes(), &values].concat())
    };
    stream.write_all(&parse).await.unwrap();
    for portal in 0..400 {
        stream.write_all(&bind(portal, b"30 bytes")).await.unwrap();
    }
    stream.write_all(&message(b'S', b"")).await.unwrap();
    assert_eq!(kinds(&mut stream).await, format!("1{}Z", "2".repeat(400)));
    // Values are each portal's own.
    let value = vec![b'x'; 50 << 10];
    let (mut reading, mut writing) = stream.into_split();
    let writer = tokio::spawn(async move {
        for portal in 0..400 {
            writing.write_all(&bind(portal, &value)).await.unwrap();
        }
        writing.write_all(&message(b'S', b"")).await.unwrap();
        writing
    });
    let (mut bound, mut refused) = (0, 0);
    loop {
        let kind = soon(reading.read_u8()).await.unwrap();
        let length = soon(reading.read_i32()).await.unwrap();
        let mut body = vec![0; length as usize - 4];
        soon(reading.read_exact(&mut body)).await.unwrap();
        match kind {
            b'2' => bound += 1,
            b'E' => {
                let told = String::from_utf8_lossy(&body);
                assert!(told.contains("53200") && told.contains("server.unfinished_bytes_max"), "{told}");
                refused += 1;
            }
            _ => break,
        }
    }
    assert!((60..90).contains(&bound) && refused == 1, "{bound} {refused}");
    drop(writer.await.unwrap());
}

#[tokio::test]
async fn time_zone_of_a_session_is_utc_and_another_is_refused() {
    let (_server, port) = start().await;
    let mut stream = connect(port).await;
    kinds(&mut stream).await;
    assert_eq!(
        rows(&mut stream, "SET TIME ZONE 'UTC'; SET timezone = 'Etc/UTC'; SHOW TIME ZONE").await,
        ["UTC"]
    );
    let (_, error) = answer(&mut stream, "SET TIME ZONE 'Europe/Berlin'").await;
    let error = error.unwrap();
    assert!(error.contains("C0A000 ") && error.contains("AT TIME ZONE 'Europe/Berlin'"), "{error}");
    let (_, error) = answer(&mut stream, "SET SESSION TimeZone TO 'Nowhere/City'").await;
    assert!(error.unwrap().contains("C22023 "));
    let local = "SELECT TIMESTAMPTZ '2026-07-01 12:00:00Z' AT TIME ZONE 'Europe/Berlin', \
                 TIMESTAMP '2026-07-01 12:00:00' AT TIME ZONE 'Europe/Berlin'";
    assert_eq!(rows(&mut stream, local).await, ["2026-07-01 14:00:00,2026-07-01 10:00:00+00"]);
    // A driver that names its zone unasked is warned, and goes on.
    let mut stream = connect_with(port, "user\0x\0TimeZone\0Europe/Berlin\0\0").await;
    assert!(kinds(&mut stream).await.contains('N'));
    assert_eq!(rows(&mut stream, "SHOW timezone").await, ["UTC"]);
    let mut odd = connect_with(port, "user\0x\0TimeZone\0Nowhere/City\0\0").await;
    let mut told = Vec::new();
    let _ = soon(odd.read_to_end(&mut told)).await;
    assert!(String::from_utf8_lossy(&told).contains("no time zone `Nowhere/City`"));
}
