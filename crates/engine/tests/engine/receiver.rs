//! A webhook receiver for tests: accepts requests on this machine, and records their contents.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
};

/// One request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    /// Its `Idempotency-Key`.
    pub(crate) key: String,
    pub(crate) content_type: String,
    pub(crate) body: String,
    /// The status of its answer.
    pub(crate) status: u16,
}

/// Takes requests as long as the test runs.
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Receiver {
    /// `answer` says by which status, of a body and how many requests with its key there were before.
    pub(crate) fn start(answer: impl Fn(&str, usize) -> u16 + Send + 'static) -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let taken = Arc::clone(&requests);
        std::thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                let Some(mut request) = read(&mut stream) else { continue };
                let mut taken = taken.lock().unwrap();
                let before = taken.iter().filter(|other: &&Request| other.key == request.key).count();
                request.status = answer(&request.body, before);
                let head = format!("HTTP/1.1 {} It is\r\n", request.status);
                // The client may be gone.
                let _ = stream
                    .write_all(format!("{head}Content-Length: 0\r\nConnection: close\r\n\r\n").as_bytes());
                taken.push(request);
            }
        });
        Receiver { address, requests }
    }

    /// All so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// The lines that were received, in order; repeated keys count once. All with one key say the same.
    pub(crate) fn lines(&self) -> Vec<String> {
        let (mut known, mut lines) = (std::collections::BTreeMap::new(), Vec::new());
        for request in self.requests() {
            if let Some(body) = known.get(&request.key) {
                assert_eq!(body, &request.body, "{}", request.key);
            }
            if request.status / 100 == 2 && known.insert(request.key, request.body.clone()).is_none() {
                lines.extend(request.body.lines().map(str::to_owned));
            }
        }
        lines
    }
}

fn read(stream: &mut TcpStream) -> Option<Request> {
    let (mut request, mut some) = (Vec::new(), [0; 4096]);
    loop {
        let count = stream.read(&mut some).ok().filter(|count| *count > 0)?;
        request.extend_from_slice(&some[..count]);
        let text = String::from_utf8_lossy(&request).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let header = |name: &str| {
            let of = head.lines().filter_map(|line| line.split_once(": "));
            of.clone().find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
        };
        if body.len() >= header("content-length")?.parse().ok()? {
            let (key, content_type) = (header("idempotency-key")?, header("content-type")?);
            return Some(Request { key, content_type, body: body.to_owned(), status: 0 });
        }
    }
}
