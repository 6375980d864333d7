//! A small blocking HTTP/1.1 client over one connection: nothing between the measurement and the socket.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use swiftwater_load::{Head, Length};

/// Nothing that is asked for takes longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection that is kept.
#[derive(Debug)]
pub(crate) struct Client {
    stream: TcpStream,
    host: String,
    /// The bytes that were read and not yet taken.
    buffer: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> anyhow::Result<Client> {
        let stream = TcpStream::connect(address).with_context(|| format!("cannot connect to {address}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Client { stream, host: address.to_string(), buffer: Vec::new() })
    }

    /// The connection, behind the head of an endless answer; what was read of its body is dropped, which is nothing
    /// where nothing was sent yet.
    pub(crate) fn into_stream(self) -> TcpStream {
        self.stream
    }

    /// A POST as it goes out.
    pub(crate) fn post_text(&self, path: &str, accept: &str, body: &[u8]) -> Vec<u8> {
        [&self.post_head(path, accept, body.len()), body].concat()
    }

    /// A POST up to its body, of so many bytes.
    pub(crate) fn post_head(&self, path: &str, accept: &str, length: usize) -> Vec<u8> {
        let host = &self.host;
        format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nAccept: {accept}\r\nContent-Length: {length}\r\n\r\n"
        )
        .into_bytes()
    }

    /// Sends a GET and takes its answer, which must be of success.
    pub(crate) fn get(&mut self, path: &str) -> anyhow::Result<Vec<u8>> {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", self.host).as_bytes())?;
        self.answer()
    }

    /// Sends a whole request, or a part of one.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.stream.write_all(bytes).context("cannot send")
    }

    /// Takes a whole answer, which must be of success.
    pub(crate) fn answer(&mut self) -> anyhow::Result<Vec<u8>> {
        let head = self.head()?;
        let mut body = Vec::new();
        while let Some(piece) = self.piece(&head, body.len())? {
            body.extend_from_slice(&piece);
        }
        ensure!(
            head.status / 100 == 2,
            "the answer has status {}: {}",
            head.status,
            String::from_utf8_lossy(&body)
        );
        Ok(body)
    }

    /// Begins a body of unknown length.
    pub(crate) fn begin_chunked(&mut self, path: &str) -> anyhow::Result<()> {
        let head =
            format!("POST {path} HTTP/1.1\r\nHost: {}\r\nTransfer-Encoding: chunked\r\n\r\n", self.host);
        self.send(head.as_bytes())
    }

    /// Sends a part of such a body; an empty one is its end.
    pub(crate) fn send_chunk(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.send(&[format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat())
    }

    /// Takes an answer up to its body.
    pub(crate) fn head(&mut self) -> anyhow::Result<Head> {
        let end = loop {
            if let Some(end) = memchr::memmem::find(&self.buffer, b"\r\n\r\n") {
                break end + 4;
            }
            self.read()?;
        };
        let head = Head::parse(&self.buffer[..end])?;
        self.buffer.drain(..end);
        Ok(head)
    }

    /// The next piece of a body of which so many bytes were taken; `None` at its end.
    pub(crate) fn piece(&mut self, head: &Head, taken: usize) -> anyhow::Result<Option<Vec<u8>>> {
        match head.length {
            Length::Known(length) if taken as u64 == length => Ok(None),
            Length::Close => bail!("the answer's length is not known"),
            Length::Known(length) => {
                if self.buffer.is_empty() {
                    self.read()?;
                }
                let count = self.buffer.len().min(length as usize - taken);
                Ok(Some(self.buffer.drain(..count).collect()))
            }
            Length::Chunked => {
                let line_end = loop {
                    if let Some(end) = memchr::memmem::find(&self.buffer, b"\r\n") {
                        break end;
                    }
                    self.read()?;
                };
                let size =
                    std::str::from_utf8(&self.buffer[..line_end]).context("a chunk's size is no text")?;
                let size = usize::from_str_radix(size, 16)
                    .with_context(|| format!("`{size}` is no chunk's size"))?;
                let (start, end) = (line_end + 2, line_end + 2 + size);
                while self.buffer.len() < end + 2 {
                    self.read()?;
                }
                let piece = self.buffer[start..end].to_vec();
                self.buffer.drain(..end + 2);
                Ok((size > 0).then_some(piece))
            }
        }
    }

    fn read(&mut self) -> anyhow::Result<()> {
        let start = self.buffer.len();
        self.buffer.resize(start + (64 << 10), 0);
        let read = self.stream.read(&mut self.buffer[start..]);
        self.buffer.truncate(start + *read.as_ref().unwrap_or(&0));
        match read.context("cannot read an answer")? {
            0 => bail!("the server closed the connection"),
            _ => Ok(()),
        }
    }
}

/// An endless answer in lines.
#[derive(Debug)]
pub(crate) struct Lines {
    client: Client,
    head: Head,
    rest: Vec<u8>,
}

impl Lines {
    /// Asks a query; its answer has begun when this returns.
    pub(crate) fn ask(mut client: Client, query: &str) -> anyhow::Result<Lines> {
        client.send(&client.post_text("/v1/queries", "application/x-ndjson", query.as_bytes()))?;
        let head = client.head()?;
        ensure!(head.status == 200, "`{query}` has status {}", head.status);
        Ok(Lines { client, head, rest: Vec::new() })
    }

    /// The next line.
    pub(crate) fn next(&mut self) -> anyhow::Result<Vec<u8>> {
        loop {
            if let Some(end) = memchr::memchr(b'\n', &self.rest) {
                return Ok(self.rest.drain(..=end).collect());
            }
            // An endless answer has no known length that so many bytes could reach.
            let piece = self.client.piece(&self.head, 0)?.context("the answer ended")?;
            self.rest.extend_from_slice(&piece);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn answers_are_read_in_both_forms() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = Client::connect(listener.local_addr().unwrap()).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        peer.write_all(
            b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcHTTP/1.1 201 Created\r\n\
            Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n10\r\n0123456789abcdef\r\n0\r\n\r\n\
            HTTP/1.1 404 Not Found\r\ncontent-length: 1\r\n\r\nx",
        )
        .unwrap();
        assert_eq!(client.answer().unwrap(), b"abc");
        assert_eq!(client.answer().unwrap(), b"abc0123456789abcdef");
        assert!(client.answer().unwrap_err().to_string().contains("404"));
        drop(peer);
        assert!(client.answer().unwrap_err().to_string().contains("closed"));
    }
}
