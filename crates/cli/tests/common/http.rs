//! A minimal HTTP client: it writes the bytes of a test, right or wrong, and reads the answer.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::TcpStream,
    time::Duration,
};

use serde_json::Value;

/// Time limit of a read: longer than the server may need on a busy machine.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// One connection; requests on it follow one another.
pub(crate) struct Connection {
    pub(crate) reader: BufReader<TcpStream>,
    authority: String,
}

/// An answer with its whole body.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&self.body)))
    }
}

/// The head of an answer; names of fields are in small letters.
struct Head {
    status: u16,
    fields: Vec<(String, String)>,
}

impl Head {
    fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str())
    }
}

impl Connection {
    pub(crate) fn open(authority: &str) -> io::Result<Connection> {
        let stream = TcpStream::connect(authority)?;
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        stream.set_nodelay(true)?;
        Ok(Connection { reader: BufReader::new(stream), authority: authority.to_owned() })
    }

    /// Writes bytes as they are.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.reader.get_mut().write_all(bytes)
    }

    /// A request's head; `fields` are whole lines.
    pub(crate) fn write_head(&mut self, method: &str, path: &str, fields: &[&str]) -> io::Result<()> {
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {}\r\n", self.authority);
        for field in fields {
            head.push_str(field);
            head.push_str("\r\n");
        }
        head.push_str("\r\n");
        self.write(head.as_bytes())
    }

    /// A piece of a body that is sent without a length; an empty one ends it.
    pub(crate) fn write_chunk(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write(format!("{:x}\r\n", bytes.len()).as_bytes())?;
        self.write(bytes)?;
        self.write(b"\r\n")
    }

    /// A whole request.
    pub(crate) fn send(&mut self, method: &str, path: &str, fields: &[&str], body: &[u8]) -> io::Result<()> {
        let length = format!("content-length: {}", body.len());
        self.write_head(method, path, &[fields, &[&length]].concat())?;
        self.write(body)
    }

    /// A whole request and its answer.
    pub(crate) fn ask(&mut self, method: &str, path: &str, body: &[u8]) -> io::Result<Answer> {
        self.ask_with(method, path, &[], body)
    }

    pub(crate) fn ask_with(
        &mut self,
        method: &str,
        path: &str,
        fields: &[&str],
        body: &[u8],
    ) -> io::Result<Answer> {
        self.send(method, path, fields, body)?;
        self.answer()
    }

    /// The next answer.
    pub(crate) fn answer(&mut self) -> io::Result<Answer> {
        let head = self.head()?;
        let mut body = Vec::new();
        if head.field("transfer-encoding").is_some() {
            Chunked { reader: &mut self.reader, left: 0, ended: false }.read_to_end(&mut body)?;
        } else {
            let length = head.field("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
            body.resize(length, 0);
            self.reader.read_exact(&mut body)?;
        }
        Ok(Answer { status: head.status, body })
    }

    fn head(&mut self) -> io::Result<Head> {
        let mut line = String::new();
        self.reader.read_line(&mut line)?;
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| io::Error::new(io::ErrorKind::UnexpectedEof, line.clone()))?;
        let mut fields = Vec::new();
        loop {
            line.clear();
            self.reader.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            fields.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        Ok(Head { status, fields })
    }

    /// Submits a query whose results are streamed; it stands when this returns.
    pub(crate) fn query(mut self, text: &str) -> io::Result<Results> {
        self.send("POST", "/v1/queries", &[], text.as_bytes())?;
        self.results()
    }

    /// The results that a request asked for.
    pub(crate) fn results(mut self) -> io::Result<Results> {
        let head = self.head()?;
        let id = head.field("swiftwater-query").map(str::to_owned);
        let id = id.ok_or_else(|| io::Error::other(format!("status {} instead of results", head.status)))?;
        let lines = BufReader::new(Chunked { reader: self.reader, left: 0, ended: false });
        Ok(Results { id, lines })
    }
}

/// A streaming query's results.
pub(crate) struct Results {
    pub(crate) id: String,
    lines: BufReader<Chunked<BufReader<TcpStream>>>,
}

impl Results {
    /// The next emit; `None` when there is none any more.
    pub(crate) fn next(&mut self) -> io::Result<Option<Value>> {
        let mut line = String::new();
        if self.lines.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        if !line.ends_with('\n') {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Some(serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))))
    }

    /// All emits that are still to come, each handed on; the last one's meta.
    pub(crate) fn each(&mut self, mut with: impl FnMut(&Value)) -> io::Result<Value> {
        let mut last = Value::Null;
        while let Some(mut emit) = self.next()? {
            with(&emit);
            last = emit["meta"].take();
        }
        Ok(last)
    }
}

/// A body that is sent without a length (RFC 9112, section 7.1).
struct Chunked<R> {
    reader: R,
    left: usize,
    ended: bool,
}

impl<R: BufRead> Read for Chunked<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.ended || out.is_empty() {
            return Ok(0);
        }
        let mut line = String::new();
        if self.left == 0 {
            self.reader.read_line(&mut line)?;
            let size = usize::from_str_radix(line.trim_end(), 16);
            self.left = size.map_err(|_| io::Error::from(io::ErrorKind::UnexpectedEof))?;
            self.ended = self.left == 0;
        }
        if self.ended {
            self.reader.read_line(&mut line)?;
            return Ok(0);
        }
        let most = out.len().min(self.left);
        let read = self.reader.read(&mut out[..most])?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= read;
        if self.left == 0 {
            self.reader.read_line(&mut line)?;
        }
        Ok(read)
    }
}
