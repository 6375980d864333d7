//! Generates the input of malicious or broken clients: random bytes, bodies that are not what they claim, requests that end
//! in the middle, queries outside any grammar. A seeded random generator draws every kind.

use std::{
    io::{Read, Write},
    sync::LazyLock,
};

use swiftwater_testkit::{MixedEvents, QueryTexts, Rng};

use super::http::Connection;

/// Bytes that a bomb unpacks to.
const BOMB_BYTES: usize = 32 << 20;
/// Events of a bomb of small events.
const BOMB_EVENTS: usize = 50_000;

/// Bodies that are small until they are unpacked, with their encodings.
static BOMBS: LazyLock<[(&str, Vec<u8>); 4]> = LazyLock::new(|| {
    let zeros = [b"{\"a\":\"", vec![b'0'; BOMB_BYTES].as_slice()].concat();
    let many = b"{\"n\":1}\n".repeat(BOMB_EVENTS);
    [("gzip", gzip(&zeros)), ("zstd", zstd(&zeros)), ("gzip", gzip(&many)), ("zstd", zstd(&many))]
});

/// A client with a seed of its own.
pub(crate) struct Attacker {
    rng: Rng,
    events: MixedEvents,
    queries: QueryTexts,
    authority: String,
    /// Events that the server says it took, by all the bodies that ended.
    pub(crate) accepted: u64,
}

impl Attacker {
    pub(crate) fn new(seed: u64, authority: &str) -> Attacker {
        Attacker {
            rng: Rng::new(seed),
            events: MixedEvents::new(seed),
            queries: QueryTexts::new(seed),
            authority: authority.to_owned(),
            accepted: 0,
        }
    }

    /// One connection and what is done to it.
    pub(crate) fn attack(&mut self) {
        let Ok(connection) = Connection::open(&self.authority) else { return };
        match self.rng.below(12) {
            0 => self.noise(connection),
            1 => self.broken_body(connection),
            2 => self.bomb(connection),
            3 => self.half_request(connection),
            4 => self.wrong_request(connection),
            5 => self.huge_head(connection),
            6 => self.wrong_framing(connection),
            7 => self.mixed_events(connection),
            8 => self.deep(connection),
            _ => self.query(connection),
        }
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        (0..self.rng.below(most)).map(|_| self.rng.bits() as u8).collect()
    }

    /// Sends bytes, and reads some of what comes back, if anything does before the server hangs up.
    fn throw(&mut self, mut connection: Connection, bytes: &[u8]) {
        // The server may hang up before it has them all.
        let _ = connection.write(bytes);
        // Without this it would wait for more where the bytes are the beginning of something.
        let _ = connection.reader.get_ref().shutdown(std::net::Shutdown::Write);
        let _ = connection.reader.take(64 << 10).read_to_end(&mut Vec::new());
    }

    fn noise(&mut self, connection: Connection) {
        let mut bytes = self.bytes(20_000);
        if self.rng.chance(0.5) {
            bytes = [b"POST /v1/streams/noise/events HTTP/1.1\r\nhost: localhost\r\n", &*bytes].concat();
        }
        self.throw(connection, &bytes);
    }

    /// A compressed body that ends early, is not what it says, or has a bit turned.
    fn broken_body(&mut self, mut connection: Connection) {
        let text = self.events.events(200).join("\n");
        let (name, mut body) = if self.rng.chance(0.5) {
            ("gzip", gzip(text.as_bytes()))
        } else {
            ("zstd", zstd(text.as_bytes()))
        };
        match self.rng.below(3) {
            0 => body.truncate(self.rng.below(body.len())),
            1 => {
                let at = self.rng.below(body.len());
                body[at] ^= 1 << self.rng.below(8);
            }
            _ => body = self.bytes(20_000),
        }
        let encoding = format!("content-encoding: {name}");
        let answer = connection.ask_with("POST", "/v1/streams/broken/events", &[&encoding], &body);
        if let Ok(answer) = answer {
            // A turned bit may be one that nobody reads.
            assert!([200, 400].contains(&answer.status), "{}", String::from_utf8_lossy(&answer.body));
            self.take(&answer.json());
        }
    }

    fn bomb(&mut self, mut connection: Connection) {
        let (name, body) = self.rng.pick(&*BOMBS);
        let encoding = format!("content-encoding: {name}");
        let answer = connection.ask_with("POST", "/v1/streams/bombs/events", &[&encoding], &body).unwrap();
        let told = answer.json();
        match answer.status {
            200 => assert_eq!(told["accepted"], BOMB_EVENTS),
            status => assert_eq!((status, told["setting"].as_str()), (413, Some("server.event_bytes_max"))),
        }
        self.take(&told);
        let path = if self.rng.chance(0.5) { "/v1/queries" } else { "/v1/queries?detach=true" };
        if let Ok(answer) = connection.ask_with("POST", path, &[&encoding], &body) {
            assert_eq!(answer.status, 413);
        }
    }

    /// Breaks off in the head or in the body.
    fn half_request(&mut self, mut connection: Connection) {
        let body = self.events.events(50).join("\n");
        let head = format!(
            "POST /v1/streams/half/events HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let whole = [head, body].concat();
        let sent = self.rng.below(whole.len());
        // Dropped without another word.
        let _ = connection.write(&whole.as_bytes()[..sent]);
    }

    fn wrong_request(&mut self, mut connection: Connection) {
        let method = self.rng.pick(&["PUT", "PATCH", "DELETE", "POST", "GET", "OPTIONS", "X", "TRACE"]);
        let path = self.rng.pick(&[
            "/v1/streams/a%00b/events",
            "/v1/streams/%ff/events",
            "/v1/streams/../../etc/passwd",
            "/v1/streams/x/events?ack=disk",
            "/v1/streams/x/events?sample=nan",
            "/v1/streams/x/events?sent=tomorrow",
            "/v1/queries/0/results",
            "/v1/queries/..",
            "/v1/queries?detach=perhaps",
            "/nowhere?a=b&a=b",
            "//",
            "*",
        ]);
        let field = self.rng.pick(&[
            "accept: nothing/at-all",
            "content-encoding: gzip, gzip",
            "content-type: image/png",
            "origin: https://elsewhere.example",
            "host: elsewhere.example",
            "expect: 100-continue",
            "upgrade: websocket",
        ]);
        if let Ok(answer) = connection.ask_with(method, path, &[field], b"{}") {
            assert!((400..500).contains(&answer.status), "{method} {path} {field}: {}", answer.status);
        }
    }

    fn huge_head(&mut self, connection: Connection) {
        let head = match self.rng.below(3) {
            0 => format!("GET / HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "x".repeat(2 << 20)),
            1 => format!("GET /{} HTTP/1.1\r\nhost: localhost\r\n\r\n", "x".repeat(100_000)),
            _ => format!("GET / HTTP/1.1\r\nhost: localhost\r\n{}\r\n", "x: y\r\n".repeat(20_000)),
        };
        self.throw(connection, head.as_bytes());
    }

    /// Lengths that contradict one another, chunks that are none.
    fn wrong_framing(&mut self, connection: Connection) {
        let fields = self.rng.pick(&[
            "content-length: 5\r\ncontent-length: 6\r\n\r\n{}\n{}\n",
            "content-length: -1\r\n\r\n{}",
            "content-length: 99999999999999999999999\r\n\r\n{}",
            "content-length: 18446744073709551615\r\n\r\n{}",
            "content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
            "transfer-encoding: chunked\r\n\r\nffffffffffffffff\r\n{}",
            "transfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n",
            "transfer-encoding: chunked\r\n\r\n2;a=b\r\n{}\r\n0\r\nx: y\r\n\r\n",
            "transfer-encoding: chunked, gzip\r\n\r\n",
            "transfer-encoding: gzip\r\n\r\n",
        ]);
        let request = format!("POST /v1/streams/framing/events HTTP/1.1\r\nhost: localhost\r\n{fields}");
        self.throw(connection, request.as_bytes());
    }

    /// Events of which some are broken by a changed byte.
    fn mixed_events(&mut self, mut connection: Connection) {
        let mut body = self.events.events(300).join("\n").into_bytes();
        for _ in 0..self.rng.below(20) {
            let at = self.rng.below(body.len());
            body[at] = self.rng.bits() as u8;
        }
        let answer = connection.ask("POST", "/v1/streams/mixed/events", &body).unwrap();
        assert!([200, 400].contains(&answer.status));
        self.take(&answer.json());
    }

    /// Nested deeper than any stack.
    fn deep(&mut self, mut connection: Connection) {
        let depth = self.rng.pick(&[100, 1_000, 200_000]);
        let (open, close) = self.rng.pick(&[("[", "]"), ("{\"a\":", "}"), ("[{\"a\":", "}]")]);
        let value = format!("{}1{}", open.repeat(depth), close.repeat(depth));
        let event = format!("{{\"deep\":{value}}}\n");
        let answer = connection.ask("POST", "/v1/streams/deep/events", event.as_bytes()).unwrap();
        assert!([200, 400, 413].contains(&answer.status));
        self.take(&answer.json());
        let query = format!("{{\"query\":{value}}}");
        let answer =
            connection.ask_with("POST", "/v1/queries", &["content-type: application/json"], query.as_bytes());
        if let Ok(answer) = answer {
            assert!([400, 413].contains(&answer.status));
        }
    }

    /// A query's text: none, almost one, or one that is as hard as it gets. The query ends with the connection.
    fn query(&mut self, mut connection: Connection) {
        let text = self.query_text();
        connection.send("POST", "/v1/queries", &[], &text).unwrap();
        if self.rng.chance(0.3) {
            return;
        }
        // The head's first bytes; a query that stands may have no more to say.
        let mut start = [0; 12];
        connection.reader.read_exact(&mut start).unwrap();
        let start = String::from_utf8_lossy(&start);
        let status = start.rsplit(' ').next().unwrap();
        assert!(["200", "400"].contains(&status), "{start}: {}", String::from_utf8_lossy(&text));
    }

    fn query_text(&mut self) -> Vec<u8> {
        let valid = self.queries.query().replace("STREAM()", "STREAM(mixed, MAX, TIME)");
        let repeated = |start: &str, middle: &str, end: &str| {
            format!("{start}{}{end}", middle.repeat(60_000 / middle.len())).into_bytes()
        };
        let from = " FROM STREAM(mixed, MAX, TIME)";
        match self.rng.below(10) {
            0 => self.bytes(2_000),
            1 => self.words(),
            2 => valid.into_bytes(),
            3 => repeated(&format!("SELECT *{from} WHERE "), "(", "a"),
            4 => repeated(
                &format!("SELECT *{from} WHERE a = 1"),
                self.rng.pick(&[" OR a = 2", " AND b = 1"]),
                "",
            ),
            5 => repeated("SELECT ", self.rng.pick(&["- ", "NOT ", "ABS(", "CAST(", "a['k'].", "a + "]), "a"),
            6 => repeated(&format!("SELECT *{from} WHERE s LIKE '"), self.rng.pick(&["%a", "_%", "%%"]), "'"),
            7 => repeated(
                &format!("SELECT *{from} WHERE s RLIKE '"),
                self.rng.pick(&["(a*)*", "a{9}", "[^a]?"]),
                "'",
            ),
            _ => {
                let mut text = valid.into_bytes();
                for _ in 0..=self.rng.below(4) {
                    if text.is_empty() {
                        break;
                    }
                    let at = self.rng.below(text.len());
                    match self.rng.below(3) {
                        0 => text[at] = self.rng.pick(b"'\"(),.*= \0\xff;-"),
                        1 => drop(text.remove(at)),
                        _ => text.truncate(at.max(1)),
                    }
                }
                text
            }
        }
    }

    /// The grammar's words in any order.
    fn words(&mut self) -> Vec<u8> {
        let words: Vec<&str> = (0..self.rng.below(40))
            .map(|_| {
                self.rng.pick(&[
                    "SELECT",
                    "DISTINCT",
                    "*",
                    "FROM",
                    "STREAM",
                    "(",
                    ")",
                    ",",
                    "MAX",
                    "TIME",
                    "WHERE",
                    "a",
                    "AND",
                    "OR",
                    "NOT",
                    "IN",
                    "LIKE",
                    "'x'",
                    "1",
                    "-1.5e9",
                    "GROUP BY",
                    "COUNT(*)",
                    "HAVING",
                    "ORDER BY",
                    "LIMIT",
                    "WINDOWING",
                    "EVERY",
                    "TUMBLING",
                    "AS",
                    "EXPLAIN",
                    "IS",
                    "NULL",
                    "CAST",
                    ".",
                    "[",
                    "]",
                ])
            })
            .collect();
        words.join(" ").into_bytes()
    }

    fn take(&mut self, told: &serde_json::Value) {
        self.accepted += told["accepted"].as_u64().unwrap();
    }
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

pub(crate) fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::stream::encode_all(bytes, 1).unwrap()
}
