//! PostgreSQL's protocol in a binary built without history: sessions begin, and each statement fails with an error that
//! names the remedy.

use std::{io, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    sync::{Semaphore, mpsc},
};

use crate::{
    engine::WITHOUT_HISTORY,
    server::{Phase, Shared, prepare},
};

/// Sessions at once; others wait to be taken.
const SESSIONS_MAX: usize = 200;
/// The time a client may take to begin its session, from the connection on.
const STARTUP_TIME_MAX: Duration = Duration::from_secs(10);
/// The time a session may be silent, and how long one message may take.
const SILENCE_MAX: Duration = Duration::from_secs(600);
/// The longest message that is read.
const MESSAGE_BYTES_MAX: usize = 1 << 20;
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Requests for TLS and for GSSAPI's encryption, which are declined, and one to cancel, which ends its connection.
const ENCRYPTION_REQUESTS: [i32; 2] = [80_877_103, 80_877_104];
const CANCEL_REQUEST: i32 = 80_877_102;

/// The running statements; there are none that could be cancelled.
#[derive(Default)]
pub(crate) struct Cancels(());

/// Takes connections until the server drains.
pub(crate) async fn accept(listener: TcpListener, shared: Arc<Shared>, alive: mpsc::Sender<()>) {
    let places = Arc::new(Semaphore::new(SESSIONS_MAX));
    loop {
        // It is never closed.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let taken = tokio::select! {
            taken = listener.accept() => taken,
            () = shared.reached(Phase::Draining) => return,
        };
        let stream = match taken {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::debug!(%error, "a connection cannot be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let (shared, alive) = (Arc::clone(&shared), alive.clone());
        tokio::spawn(async move {
            let ended = tokio::select! {
                ended = speak(stream) => ended,
                () = shared.reached(Phase::Closing) => Ok(()),
            };
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection of PostgreSQL's protocol ended early");
            }
            drop((place, alive));
        });
    }
}

async fn speak(stream: TcpStream) -> io::Result<()> {
    prepare(&stream)?;
    let mut stream = BufReader::new(stream);
    if !tokio::time::timeout(STARTUP_TIME_MAX, begins_session(&mut stream)).await?? {
        return Ok(());
    }
    let mut out = message(b'R', &0_i32.to_be_bytes());
    for (name, value) in
        [("server_version", "16.0"), ("server_encoding", "UTF8"), ("client_encoding", "UTF8")]
    {
        out.extend(message(b'S', format!("{name}\0{value}\0").as_bytes()));
    }
    out.extend(message(b'Z', b"I"));
    stream.write_all(&out).await?;
    // After an error of the extended protocol everything is passed over up to Sync.
    let mut passes_over = false;
    loop {
        let kind = tokio::time::timeout(SILENCE_MAX, stream.read_u8()).await??;
        tokio::time::timeout(SILENCE_MAX, body(&mut stream)).await??;
        let answer = match kind {
            b'X' => return Ok(()),
            b'Q' => [refusal(), message(b'Z', b"I")].concat(),
            b'S' => {
                passes_over = false;
                message(b'Z', b"I")
            }
            _ if passes_over => continue,
            _ => {
                passes_over = true;
                refusal()
            }
        };
        stream.write_all(&answer).await?;
    }
}

/// Reads messages up to the one that begins a session; answers false where the client cancels another one's statement.
async fn begins_session(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> io::Result<bool> {
    loop {
        let body = body(stream).await?;
        let (code, _) =
            body.split_first_chunk().ok_or_else(|| malformed("the first message is too short"))?;
        match i32::from_be_bytes(*code) {
            code if ENCRYPTION_REQUESTS.contains(&code) => stream.write_all(b"N").await?,
            CANCEL_REQUEST => return Ok(false),
            _ => return Ok(true),
        }
    }
}

/// The bytes that follow a message's length.
async fn body(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let length = stream.read_i32().await?;
    let length = usize::try_from(length).ok().and_then(|length| length.checked_sub(4));
    let length = length.filter(|length| *length <= MESSAGE_BYTES_MAX);
    let mut body = vec![0; length.ok_or_else(|| malformed("a message has no length that it can have"))?];
    stream.read_exact(&mut body).await?;
    Ok(body)
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap_or(u32::MAX);
    [&[kind], &length.to_be_bytes()[..], body].concat()
}

/// `0A000`: feature not supported.
fn refusal() -> Vec<u8> {
    message(b'E', format!("SERROR\0VERROR\0C0A000\0M{WITHOUT_HISTORY}\0\0").as_bytes())
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

    use super::*;

    async fn begin(messages: &[u8]) -> io::Result<(bool, Vec<u8>)> {
        let (mut client, mut server) = tokio::io::duplex(1 << 10);
        client.write_all(messages).await?;
        let begins = begins_session(&mut server).await?;
        drop(server);
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await?;
        Ok((begins, answer))
    }

    fn first(code: i32) -> Vec<u8> {
        [8_i32.to_be_bytes(), code.to_be_bytes()].concat()
    }

    #[tokio::test]
    async fn session_begins_after_encryption_is_declined() {
        let messages =
            [first(ENCRYPTION_REQUESTS[0]), first(ENCRYPTION_REQUESTS[1]), first(196_608)].concat();
        assert_eq!(begin(&messages).await.unwrap(), (true, b"NN".to_vec()));
        assert_eq!(begin(&first(CANCEL_REQUEST)).await.unwrap(), (false, Vec::new()));
        assert!(begin(&5_i32.to_be_bytes()).await.is_err(), "a message without its code");
    }
}
