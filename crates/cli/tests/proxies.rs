//! Tests the configurations of docs/how-to/proxy.md as they are printed. nginx and HAProxy run in front of a real server,
//! with TLS and a prefix. The probes of the manifest for Kubernetes go to a server with its arguments. The test inserts
//! ports, the address of the server and the certificate's files. If a program is not available, a test reports that it was
//! skipped.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "what fails here fails a test, and what is skipped is said"
)]

mod common;

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
};

use common::{TestServer, until};
use serde_json::{Map, Value, json};

const HOST: &str = "events.example.com";

/// The code block of the document in this language.
fn block(language: &str) -> String {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/how-to/proxy.md");
    let text = fs::read_to_string(document).unwrap();
    let start = format!("\n```{language}\n");
    let (_, rest) = text.split_once(&start).unwrap_or_else(|| panic!("no block of {language}"));
    rest.split_once("\n```\n").unwrap().0.to_owned() + "\n"
}

/// Replaces `old`, which the document has, by `new`.
fn put(text: &str, old: &str, new: &str) -> String {
    assert!(text.contains(old), "docs/how-to/proxy.md has `{old}`");
    text.replace(old, new)
}

/// The path of a program; none, with a line that says so, if it is not installed.
fn program(name: &str) -> Option<PathBuf> {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let found =
        std::env::split_paths(&path).map(|directory| directory.join(name)).find(|path| path.is_file());
    if found.is_none() {
        println!("skipped: `{name}` cannot be had");
    }
    found
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A certificate and its key, and both in one file.
fn certificate(directory: &Path) -> Option<[String; 3]> {
    let [cert, key, both] =
        ["cert.pem", "key.pem", "both.pem"].map(|name| directory.join(name).to_str().unwrap().to_owned());
    let mut command = Command::new(program("openssl")?);
    command.args([
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "1",
        "-subj",
        "/CN=events.example.com",
    ]);
    let made = command.args(["-out", &cert, "-keyout", &key]).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    fs::write(&both, fs::read_to_string(&cert).unwrap() + &fs::read_to_string(&key).unwrap()).unwrap();
    Some([cert, key, both])
}

/// A process that is killed in the end.
struct Proxy {
    child: Child,
    port: u16,
}

impl Proxy {
    fn start(mut command: Command, port: u16) -> Proxy {
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        until("the proxy to listen", || {
            if child.try_wait().unwrap().is_some() {
                let mut told = String::new();
                child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
                panic!("the proxy ended: {told}");
            }
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        Proxy { child, port }
    }

    fn curl(&self, arguments: &[&str], path: &str) -> Command {
        let mut command = Command::new("curl");
        let resolve = format!("{HOST}:{}:127.0.0.1", self.port);
        command.args(["-sS", "-k", "-N", "--noproxy", "*", "--max-time", "30", "--resolve", &resolve]);
        command.args(arguments).arg(format!("https://{HOST}:{}{path}", self.port));
        command
    }

    fn ask(&self, arguments: &[&str], path: &str) -> String {
        let output = self.curl(arguments, path).output().unwrap();
        assert!(output.status.success(), "{path}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads lines until one has this in it; answers all of them.
fn read_until(out: &mut BufReader<ChildStdout>, text: &str) -> String {
    let mut read = String::new();
    while !read.contains(text) {
        assert!(out.read_line(&mut read).unwrap() > 0, "no `{text}`: {read}");
    }
    read
}

fn server() -> TestServer {
    TestServer::start(&["--server.hosts-allowed", HOST])
}

/// The checks that a proxy in front of a server has to pass.
fn check(proxy: &Proxy) {
    assert!(proxy.ask(&[], "/live/readyz").contains("ready"));
    let elsewhere = proxy.ask(&["-o", "/dev/null", "-w", "%{http_code}"], "/v1/streams");
    assert!(["404", "503"].contains(&elsewhere.as_str()), "outside of the prefix: {elsewhere}");

    // Places have the prefix.
    let detached = ["-i", "-d", "SELECT * FROM STREAM(other, MAX, TIME)"];
    let told = proxy.ask(&detached, "/live/v1/queries?detach=true").to_lowercase();
    assert!(told.contains("location: /live/v1/queries/"), "{told}");

    // A live query: its head comes before there is an event.
    let query =
        ["-i", "-H", "accept: text/event-stream", "-d", "SELECT * FROM STREAM(s, MAX, TIME) WHERE n > 0"];
    let mut asked = proxy.curl(&query, "/live/v1/queries").stdout(Stdio::piped()).spawn().unwrap();
    let mut emits = BufReader::new(asked.stdout.take().unwrap());
    read_until(&mut emits, "\r\n\r\n");
    // An event of a body that goes on is answered while both go on: neither is gathered.
    let send = ["-X", "POST", "-H", "content-type: application/x-ndjson", "-T", "-"];
    let mut sending = proxy
        .curl(&send, "/live/v1/streams/s/events")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut body = sending.stdin.take().unwrap();
    for n in 1..=3 {
        writeln!(body, "{{\"n\":{n}}}").unwrap();
        body.flush().unwrap();
        read_until(&mut emits, &format!("{{\"n\":{n}}}"));
    }
    drop(body);
    let sent = sending.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&sent.stdout).into_owned();
    assert!(told.contains("\"accepted\":3"), "{told}");
    asked.kill().unwrap();
    asked.wait().unwrap();

    // More than proxies take as they come.
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("lines");
    fs::write(&file, format!("{{\"pad\":\"{}\"}}\n", "x".repeat(1_000)).repeat(20_000)).unwrap();
    let file = format!("@{}", file.display());
    let told = proxy.ask(&["--data-binary", &file], "/live/v1/streams/s/events");
    assert!(told.contains("\"accepted\":20000"), "{told}");

    let upgrade = [
        "-i",
        "--http1.1",
        "--max-time",
        "1",
        "-H",
        "connection: upgrade",
        "-H",
        "upgrade: websocket",
        "-H",
        "sec-websocket-version: 13",
        "-H",
        "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==",
    ];
    for path in ["/live/api/bullet/queries/ws-query/websocket", "/live/v1/ws"] {
        let output = proxy.curl(&upgrade, path).output().unwrap();
        let head = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(head.starts_with("HTTP/1.1 101 "), "{path}: {head}");
    }

    // The console names its files by addresses relative to the page, which the prefix is before.
    let page = proxy.ask(&["-H", "accept: text/html"], "/live/");
    let (before, _) = page.split_once("/app.js\"").unwrap_or_else(|| panic!("{page}"));
    let base = before.rsplit_once('"').unwrap().1;
    assert!(base.starts_with("v1/console/"), "{base}");
    let script = proxy.ask(&["--compressed"], &format!("/live/{base}/app.js"));
    assert!(script.len() > 50_000, "{} bytes", script.len());
}

#[test]
fn nginx_passes_everything_on_as_the_document_configures_it() {
    let directory = tempfile::tempdir().unwrap();
    let (Some(nginx), Some([cert, key, _])) = (program("nginx"), certificate(directory.path())) else {
        return;
    };
    let (server, port) = (server(), free_port());
    let text = put(&block("nginx"), "127.0.0.1:8080", server.url.strip_prefix("http://").unwrap());
    let text = put(&text, "listen 443 ssl", &format!("listen 127.0.0.1:{port} ssl"));
    let text = put(&text, "/etc/ssl/events.example.com.pem", &cert);
    let text = put(&text, "/etc/ssl/events.example.com.key", &key);
    let at = directory.path().display();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {at}/{kind};\n"))
        .concat();
    let whole = format!(
        "daemon off;\nmaster_process off;\npid {at}/pid;\nerror_log stderr;\nevents {{}}\n\
         http {{\naccess_log off;\n{temporary}{text}}}\n"
    );
    let path = directory.path().join("nginx.conf");
    fs::write(&path, whole).unwrap();
    let mut command = Command::new(nginx);
    command.args(["-e", "stderr", "-p"]).arg(directory.path()).arg("-c").arg(&path);
    check(&Proxy::start(command, port));
}

#[test]
fn haproxy_passes_everything_on_as_the_document_configures_it() {
    let directory = tempfile::tempdir().unwrap();
    let (Some(haproxy), Some([_, _, both])) = (program("haproxy"), certificate(directory.path())) else {
        return;
    };
    let (server, port) = (server(), free_port());
    let text = put(&block("haproxy"), "127.0.0.1:8080", server.url.strip_prefix("http://").unwrap());
    let text = put(&text, "bind :443", &format!("bind 127.0.0.1:{port}"));
    let text = put(&text, "/etc/ssl/events.example.com.pem", &both);
    let path = directory.path().join("haproxy.cfg");
    fs::write(&path, text).unwrap();
    let mut command = Command::new(haproxy);
    command.arg("-db").arg("-f").arg(&path);
    check(&Proxy::start(command, port));
}

/// Reads what the document has of YAML: maps, lists and plain or quoted values by indentation, and lists within brackets.
fn yaml(text: &str) -> Value {
    let lines: Vec<(usize, &str)> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| (line.len() - line.trim_start().len(), line.trim()))
        .collect();
    let mut at = 0;
    let value = node(&lines, &mut at, lines[0].0);
    assert_eq!(at, lines.len(), "line {:?} is indented wrongly", lines.get(at));
    value
}

fn node(lines: &[(usize, &str)], at: &mut usize, indent: usize) -> Value {
    let is_list = lines[*at].1.starts_with("- ");
    let (mut list, mut map) = (Vec::new(), Map::new());
    while let Some((depth, line)) = lines.get(*at).copied().filter(|(depth, _)| *depth == indent) {
        if let Some(item) = line.strip_prefix("- ") {
            assert!(is_list, "a list within a map: {line}");
            if item.contains(": ") || item.ends_with(':') {
                // The map of an item begins on its line.
                let mut inner = lines.to_vec();
                inner[*at] = (depth + 2, item);
                list.push(node(&inner, at, depth + 2));
            } else {
                list.push(scalar(item));
                *at += 1;
            }
            continue;
        }
        let (key, value) = line.split_once(':').unwrap_or_else(|| panic!("no key: {line}"));
        *at += 1;
        let value = match value.trim() {
            "" => {
                let inner = lines.get(*at).map_or(0, |(depth, _)| *depth);
                assert!(inner > indent, "`{key}` has no value");
                node(lines, at, inner)
            }
            value => scalar(value),
        };
        assert!(map.insert(key.to_owned(), value).is_none(), "`{key}` is there twice");
    }
    if is_list { Value::Array(list) } else { Value::Object(map) }
}

fn scalar(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

#[test]
fn manifest_of_kubernetes_starts_a_server_whose_probes_answer() {
    let text = block("yaml");
    let documents: Vec<Value> = text.split("---\n").map(yaml).collect();
    let [service, set] = &documents[..] else { panic!("a service and a set") };
    assert_eq!((&service["kind"], &set["kind"]), (&json!("Service"), &json!("StatefulSet")));
    let pod = &set["spec"]["template"];
    for labels in [&service["spec"]["selector"], &set["spec"]["selector"]["matchLabels"]] {
        assert_eq!(labels, &pod["metadata"]["labels"]);
    }
    assert_eq!(set["spec"]["serviceName"], service["metadata"]["name"]);
    let container = &pod["spec"]["containers"][0];
    let port = &container["ports"][0];
    assert_eq!(service["spec"]["ports"][0]["targetPort"], port["name"]);
    assert_eq!(
        container["volumeMounts"][0]["name"],
        set["spec"]["volumeClaimTemplates"][0]["metadata"]["name"]
    );
    // Python's reader finds the same in it, where there is one.
    let read = "import sys, json, yaml; print(json.dumps(list(yaml.safe_load_all(sys.stdin))))";
    let python =
        Command::new("python3").args(["-c", read]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    if let Ok(mut python) = python {
        drop(python.stdin.take().unwrap().write_all(text.as_bytes()));
        let output = python.wait_with_output().unwrap();
        match output.status.success() {
            true => assert_eq!(serde_json::from_slice::<Vec<Value>>(&output.stdout).unwrap(), documents),
            false => println!("skipped: Python has no `yaml`"),
        }
    }

    let directory = tempfile::tempdir().unwrap();
    let words = |value: &Value| -> Vec<String> {
        value.as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect()
    };
    let command = words(&container["command"]);
    assert_eq!(command, ["swiftwater", "serve"]);
    let listen = format!("0.0.0.0:{}", port["containerPort"]);
    let mount = container["volumeMounts"][0]["mountPath"].as_str().unwrap().to_owned();
    let args = words(&container["args"]);
    assert!(args.contains(&listen) && args.contains(&mount), "{args:?}");
    let data = directory.path().to_str().unwrap().to_owned();
    let args: Vec<String> = args
        .into_iter()
        .map(|word| match word {
            word if word == listen => "127.0.0.1:0".to_owned(),
            word if word == mount => data.clone(),
            word => word,
        })
        .collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let server = TestServer::start_as(&["serve", "--log", "warn"], &args);
    let authority = server.url.strip_prefix("http://").unwrap();
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
        let get = &container[probe]["httpGet"];
        assert_eq!(get["port"], port["name"], "{probe}");
        // The kubelet sends the pod's address.
        let path = get["path"].as_str().unwrap();
        let answer = ask(
            authority,
            &format!("GET {path} HTTP/1.1\r\nhost: 10.1.2.3:8080\r\nconnection: close\r\n\r\n"),
        );
        assert!(answer.starts_with("HTTP/1.1 200 "), "{probe}: {answer}");
    }
    let metrics = pod["metadata"]["annotations"]["prometheus.io/path"].as_str().unwrap();
    assert!(server.get(metrics).contains("swiftwater_"));
    // Under the service's name, too.
    let named =
        format!("GET /v1/streams HTTP/1.1\r\nhost: {}:8080\r\nconnection: close\r\n\r\n", "swiftwater");
    assert!(ask(authority, &named).starts_with("HTTP/1.1 200 "));
}

fn ask(authority: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(authority).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}
