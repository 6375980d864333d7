//! Tests syslog over real sockets: by hand, and by util-linux's `logger` and the real rsyslog where they are available.

#![allow(clippy::print_stdout, reason = "what is skipped is said")]

use std::{
    net::{SocketAddr, TcpStream, UdpSocket},
    path::Path,
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};
use swiftwater_engine::EngineConfig;

use crate::client::{Reply, Running, soon};

async fn start() -> (Running, Reply) {
    let change = |config: &mut swiftwater_server::ServerConfig| {
        config.syslog.tcp_listen = Some("127.0.0.1:0".parse().unwrap());
        config.syslog.udp_listen = Some("127.0.0.1:0".parse().unwrap());
        config.syslog.message_bytes_max = 2048;
    };
    let server = Running::with(EngineConfig::default(), change).await;
    let results = server.ask("application/x-ndjson", "SELECT * FROM STREAM(syslog, MAX, TIME)").await;
    (server, results)
}

/// The syslog counters of the metrics, by the ends of their names.
async fn number(server: &Running, name: &str) -> u64 {
    let text = server.get("/metrics").await.text().await;
    let line = text.lines().find(|line| line.starts_with(&format!("swiftwater_syslog_{name} ")));
    line.and_then(|line| line.rsplit(' ').next()).unwrap().parse().unwrap()
}

/// Runs a program elsewhere; false, with a line that says so, where it cannot be had.
async fn ran(mut command: Command) -> bool {
    let name = command.get_program().to_string_lossy().into_owned();
    match soon(tokio::task::spawn_blocking(move || command.output())).await.unwrap() {
        Ok(output) => {
            assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
            true
        }
        Err(error) => {
            println!("skipped: `{name}` cannot be had: {error}");
            false
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_become_events_however_they_are_framed() {
    let (server, mut results) = start().await;
    let mut tcp = TcpStream::connect(server.syslog_tcp.unwrap()).unwrap();
    let counted = "<34>1 2026-01-31T12:00:00.003Z web su 7 ID47 [a@1 x=\"y\"] two\nlines";
    let bytes = format!("{} {counted}<13>1 nonsense\n<0>1 - - - - - - {}\n", counted.len(), "x".repeat(3000));
    std::io::Write::write_all(&mut tcp, bytes.as_bytes()).unwrap();
    let mut events = results.records(3).await;
    // Shards may give them out in another order.
    events.sort_by_key(|event| event["severity_number"].as_u64());
    assert_eq!(
        events[1],
        json!({"time": "2026-01-31T12:00:00.003Z", "facility": "auth", "severity": "crit", "severity_number": 2,
               "host": "web", "app": "su", "pid": "7", "msgid": "ID47", "data": {"a@1": {"x": "y"}},
               "message": "two\nlines", "peer": "127.0.0.1"})
    );
    assert_eq!(
        events[2],
        json!({"malformed": "its time, host, application, process or message identifier is missing",
               "facility": "user", "severity": "notice", "severity_number": 5, "raw": "<13>1 nonsense",
               "peer": "127.0.0.1"})
    );
    let cut = &events[0];
    assert_eq!(cut["malformed"], "it exceeds the maximum length, and was cut");
    assert_eq!(cut["raw"].as_str().unwrap().len(), 2048);

    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    for (text, field, value) in
        [("<13>1 - - - - - - one\n", "message", "one"), ("no syslog", "raw", "no syslog")]
    {
        udp.send_to(text.as_bytes(), server.syslog_udp.unwrap()).unwrap();
        assert_eq!(results.records(1).await[0][field], value);
    }
    assert_eq!(number(&server, "malformed_total").await, 3);
    assert_eq!(number(&server, "messages_total{transport=\"tcp\"}").await, 3);
    assert_eq!(number(&server, "messages_total{transport=\"udp\"}").await, 2);
    assert_eq!(number(&server, "connections").await, 1);
    assert_eq!(number(&server, "dropped_total").await, 0);
    // A message without an end of its own ends with the connection.
    std::io::Write::write_all(&mut tcp, b"<13>1 - - - - - - last").unwrap();
    drop(tcp);
    assert_eq!(results.records(1).await[0]["message"], "last");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_waits_for_no_sender() {
    let (mut server, results) = start().await;
    let mut tcp = TcpStream::connect(server.syslog_tcp.unwrap()).unwrap();
    // It is counted from its first byte on.
    std::io::Write::write_all(&mut tcp, b"<13>half of").unwrap();
    soon(async {
        while number(&server, "connections").await == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    server.begin_stop();
    drop(results);
    server.stopped().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn logger_sends_every_form() {
    let (server, mut results) = start().await;
    for (transport, address) in [("--tcp", server.syslog_tcp), ("--udp", server.syslog_udp)] {
        let address = address.unwrap();
        for form in [&["--rfc3164"][..], &["--rfc5424"], &["--rfc5424", "--octet-count"]] {
            let mut command = Command::new("logger");
            command.args([transport, "--server", "127.0.0.1", "--port", &address.port().to_string()]);
            command.args(form).args(["--priority", "local3.warning", "--tag", "shop", "--id=42"]);
            if form.contains(&"--rfc5424") {
                command.args(["--msgid", "M1", "--sd-id", "a@1", "--sd-param", "k=\"v \\\"q\\\"\""]);
            }
            command.arg("--").arg("hällo wörld");
            if !ran(command).await {
                return;
            }
            let event = results.records(1).await.remove(0);
            let expected = [
                ("facility", "local3"),
                ("severity", "warning"),
                ("app", "shop"),
                ("pid", "42"),
                ("message", "hällo wörld"),
            ];
            // A length in front of a datagram is no part of any standard, and so is what follows it.
            if transport == "--udp" && form.contains(&"--octet-count") {
                assert!(event["raw"].as_str().unwrap().ends_with("hällo wörld"), "{event}");
                continue;
            }
            for (name, value) in expected {
                assert_eq!(event[name], value, "{transport} {form:?}: {event}");
            }
            assert!(event["time"].is_string() && event["host"].is_string(), "{event}");
            if form.contains(&"--rfc5424") {
                assert_eq!(
                    (&event["msgid"], &event["data"]["a@1"]),
                    (&json!("M1"), &json!({"k": "v \"q\""}))
                );
            }
        }
    }
}

/// A process that ends with the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// rsyslog that takes lines at a socket and forwards them in four ways.
fn configuration(directory: &Path, tcp: SocketAddr, udp: SocketAddr) -> String {
    let directory = directory.display();
    let forward = |template: &str, protocol: &str, port: u16, more: &str| {
        format!(
            "action(type=\"omfwd\" target=\"127.0.0.1\" port=\"{port}\" protocol=\"{protocol}\" template=\"{template}\" {more})\n"
        )
    };
    [
        format!("global(workDirectory=\"{directory}\")\nmodule(load=\"imuxsock\" SysSock.Use=\"off\")\n"),
        format!("input(type=\"imuxsock\" Socket=\"{directory}/log\" createPath=\"on\")\n"),
        forward("RSYSLOG_SyslogProtocol23Format", "tcp", tcp.port(), "TCP_Framing=\"octet-counted\""),
        forward("RSYSLOG_SyslogProtocol23Format", "udp", udp.port(), ""),
        forward("RSYSLOG_ForwardFormat", "tcp", tcp.port(), "TCP_Framing=\"traditional\""),
        forward("RSYSLOG_TraditionalForwardFormat", "udp", udp.port(), ""),
    ]
    .concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn rsyslog_forwards_what_it_takes() {
    let program = ["/usr/sbin/rsyslogd", "rsyslogd"].into_iter().find(|program| {
        Command::new(program).arg("-v").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
    });
    let Some(program) = program else {
        println!("skipped: there is no rsyslogd");
        return;
    };
    let (server, mut results) = start().await;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("rsyslog.conf");
    let text = configuration(directory.path(), server.syslog_tcp.unwrap(), server.syslog_udp.unwrap());
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new(program);
    command.arg("-n").arg("-f").arg(&file).arg("-i").arg(directory.path().join("pid"));
    let child = Ended(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let socket = directory.path().join("log");
    let sender = std::os::unix::net::UnixDatagram::unbound().unwrap();
    // The socket's file is there a moment before it takes anything.
    soon(async {
        while sender.send_to(b"<28>Jan 31 12:00:00 shop[42]: it is slow", &socket).is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    // rsyslog tells of itself too.
    let mut ours: Vec<Value> = Vec::new();
    while ours.len() < 4 {
        ours.extend(results.records(1).await.into_iter().filter(|event| event["app"] == "shop"));
    }
    for event in ours {
        assert_eq!(event.get("malformed"), None, "{event}");
        assert_eq!(
            (&event["facility"], &event["severity"], &event["pid"]),
            (&json!("daemon"), &json!("warning"), &json!("42"))
        );
        assert_eq!(event["message"].as_str().unwrap().trim(), "it is slow", "{event}");
        assert!(event["time"].is_string() && event["host"].is_string(), "{event}");
    }
    drop(child);
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_connections_keep_no_sender_out() {
    let change = |config: &mut swiftwater_server::ServerConfig| {
        config.syslog.tcp_listen = Some("127.0.0.1:0".parse().unwrap());
        config.syslog.connections_max = 2;
    };
    let server = Running::with(EngineConfig::default(), change).await;
    let mut results = server.ask("application/x-ndjson", "SELECT * FROM STREAM(syslog, MAX, TIME)").await;
    let address = server.syslog_tcp.unwrap();
    let silent: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(address).unwrap()).collect();
    let mut sender = TcpStream::connect(address).unwrap();
    std::io::Write::write_all(&mut sender, b"<13>here\n").unwrap();
    assert_eq!(results.records(1).await[0]["message"], "here");
    drop(silent);
}
