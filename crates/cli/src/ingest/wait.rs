//! Waits for a server that has no room: how long to wait, and which events to send again.
//!
//! A refusal names the first event in the body that was not taken. Recently sent bytes are kept until the answer arrives, up
//! to [`SENT_BYTES_KEPT`]. A server takes events as it reads them. The bytes that it has not taken are in the buffers in
//! between, in the pieces that it is processing, or read only so that its answer is seen. If more bytes than are kept have
//! to be sent again, a file is read again. Input that can be read only once is kept up to [`ALL_SENT_BYTES_KEPT`].
//!
//! A numbered request is sent again whole, to the same byte, and the server takes the part of it that it has not taken yet.
//! So no more than one request is ever sent again.

use std::{
    collections::VecDeque,
    io::{self, BufRead, BufReader, Read},
    task::{Context as TaskContext, Poll},
    time::Duration,
};

use anyhow::bail;
use bytes::{Buf, Bytes};
use serde::Deserialize;
use tokio::{sync::mpsc, time::Instant};

use super::edges::Edges;
use crate::{
    args::IngestArgs,
    client::{Client, Connection},
    input_file::StopReading,
};

/// A server is waited for at least so long at once, whatever it says, and at most so long.
pub(super) const WAIT_MIN: Duration = Duration::from_millis(100);
pub(super) const WAIT_MAX: Duration = Duration::from_secs(60);
/// Time for which a server that takes no event is waited for, unless `--retry` says otherwise.
const PATIENCE: Duration = Duration::from_secs(600);
/// Interval at which a wait checks if it must end.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Bytes kept of the sent part of a file.
pub(super) const SENT_BYTES_KEPT: usize = 32 << 20;
/// Bytes kept of sent input that cannot be read again: the 64 MiB that a server reads after a refusal, and the content
/// of buffers.
pub(super) const ALL_SENT_BYTES_KEPT: usize = 96 << 20;

/// A server that has no room now, as far as it says.
#[derive(Debug)]
pub(super) struct Busy {
    /// The position in the body at which to continue.
    pub(super) next: TextPosition,
    /// The wait that the server asks for.
    pub(super) pause: Duration,
    /// True if it took any event of the body.
    pub(super) is_progress: bool,
    /// It did not answer, or not to the end.
    pub(super) is_lost: bool,
    /// The message if it is not waited for.
    pub(super) why: String,
}

/// A place in a text: its line, and the byte in it, both from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(super) struct TextPosition {
    pub(super) line: u64,
    pub(super) column: u64,
}

impl Default for TextPosition {
    fn default() -> TextPosition {
        TextPosition { line: 1, column: 1 }
    }
}

impl TextPosition {
    /// A place in a text that begins here.
    pub(super) fn plus(self, within: TextPosition) -> TextPosition {
        match within.line {
            0 | 1 => TextPosition { line: self.line, column: self.column + within.column.saturating_sub(1) },
            line => TextPosition { line: self.line + line - 1, column: within.column },
        }
    }

    /// The place behind a text that begins here.
    pub(super) fn behind(self, text: &[u8]) -> TextPosition {
        match memchr::memrchr(b'\n', text) {
            None => TextPosition { line: self.line, column: self.column + text.len() as u64 },
            Some(last) => TextPosition {
                line: self.line + memchr::memchr_iter(b'\n', text).count() as u64,
                column: (text.len() - last) as u64,
            },
        }
    }

    /// The index in a text that begins here of the byte at a place: its length if that is after it.
    pub(super) fn find(self, place: TextPosition, text: &[u8]) -> usize {
        let Some(lines) = place.line.checked_sub(self.line) else { return 0 };
        let (start, column) = match lines {
            0 => (0, self.column),
            lines => match memchr::memchr_iter(b'\n', text).nth(lines as usize - 1) {
                Some(newline) => (newline + 1, 1),
                None => return text.len(),
            },
        };
        let at = start as u64 + place.column.saturating_sub(column);
        usize::try_from(at).unwrap_or(usize::MAX).min(text.len())
    }
}

/// The time for which a server without room is waited for.
pub(super) struct RetryDeadline {
    span: Duration,
    /// The time for which a server that does not answer is waited for.
    lost_span: Duration,
    /// The time since which it has taken no event.
    since: Option<Instant>,
    /// True once it was reported that it has no room, and that it does not answer.
    told: [bool; 2],
}

impl RetryDeadline {
    pub(super) fn new(args: &IngestArgs) -> RetryDeadline {
        RetryDeadline {
            span: args.retry.unwrap_or(PATIENCE),
            lost_span: args.retry.unwrap_or(Duration::ZERO),
            since: None,
            told: [false; 2],
        }
    }

    /// Waits as long as the server asks, and connects again. The first wait is reported.
    pub(super) async fn wait(
        &mut self,
        client: &Client,
        stop: &StopReading,
        busy: &Busy,
        say: impl FnOnce(&str),
    ) -> anyhow::Result<Connection> {
        let now = Instant::now();
        let since = match self.since {
            Some(since) if !busy.is_progress => since,
            _ => *self.since.insert(now),
        };
        let span = if busy.is_lost { self.lost_span } else { self.span };
        if span.is_zero() {
            bail!("{}", busy.why);
        }
        if now - since >= span {
            bail!("{}\nthe server accepted nothing for {} s", busy.why, span.as_secs());
        }
        if !std::mem::replace(&mut self.told[usize::from(busy.is_lost)], true) {
            say(&match busy.is_lost {
                false => format!(
                    "{}\nwaiting until the server has room, to continue after the accepted events",
                    busy.why
                ),
                true => {
                    format!("{}\nwaiting until the server answers, to send the same request again", busy.why)
                }
            });
        }
        let waiting = async {
            tokio::time::sleep(busy.pause).await;
            client.connect_patiently(span).await
        };
        tokio::select! {
            connected = waiting => connected,
            () = stopped(stop) => bail!("interrupted while the server accepted nothing; the rest was not sent"),
        }
    }

    /// The server has taken all that a request had.
    pub(super) fn progressed(&mut self) {
        self.since = None;
    }
}

async fn stopped(stop: &StopReading) {
    while !stop.stopped() {
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

/// Returns true if a text is an array of JSON; none if it is only white space so far.
fn is_array(text: &[u8]) -> Option<bool> {
    let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
    text.iter().find(|byte| !byte.is_ascii_whitespace()).map(|byte| *byte == b'[')
}

/// Reads up to a place; returns the rest, and true if the input is an array.
pub(super) fn skip(
    reader: Box<dyn Read + Send>,
    to: TextPosition,
) -> io::Result<(impl Read + Send + 'static, bool)> {
    let mut reader = BufReader::with_capacity(256 << 10, reader);
    let (mut at, mut array) = (TextPosition::default(), None);
    while at < to {
        let text = reader.fill_buf()?;
        if text.is_empty() {
            break;
        }
        array = array.or_else(|| is_array(text));
        let end = at.find(to, text);
        at = at.behind(&text[..end]);
        reader.consume(end);
    }
    Ok((reader, array == Some(true)))
}

/// Blocks as they are read, taken by one request after another, and what was taken of late.
pub(super) struct SharedBlocks {
    blocks: mpsc::Receiver<io::Result<Bytes>>,
    /// The next ones, before those that are still to be read.
    again: VecDeque<io::Result<Bytes>>,
    /// Counts requests, and their ends: whose body is not of this one gets nothing more.
    request: u64,
    /// The input that the request has taken, as far as it is kept.
    sent: VecDeque<Bytes>,
    sent_bytes: usize,
    sent_bytes_kept: usize,
    /// Start of that input.
    sent_begins: TextPosition,
    /// End of the input taken.
    taken: TextPosition,
    /// True if the input is an array of JSON; not known before its first byte.
    is_array: Option<bool>,
    /// The next request begins within an array, before an element or what separates it from the one before.
    is_within_array: bool,
    /// The bytes of the next request's body before its first block.
    prefix: Option<Bytes>,
    /// The rules by which bodies end before the input does, if requests are numbered.
    cut: Option<CutBodies>,
    /// Bytes that the request has taken, and its start.
    request_bytes: usize,
    request_begins: TextPosition,
    /// The places at which the request may end.
    edges: Edges,
    /// The body has ended before the input.
    is_ended: bool,
    /// A request that is sent again ends where it ended before.
    same_bytes: Option<usize>,
}

/// The rules for cutting numbered requests.
#[derive(Debug, Clone, Copy)]
pub(super) struct CutBodies {
    /// A body ends at the first edge behind so many bytes.
    pub(super) bytes: usize,
    /// It may end at any edge, when its time is over.
    pub(super) by_time: bool,
}

impl SharedBlocks {
    /// `sent_bytes_kept`: what is kept of a request at least, for sending it again.
    pub(super) fn new(blocks: mpsc::Receiver<io::Result<Bytes>>, sent_bytes_kept: usize) -> SharedBlocks {
        SharedBlocks {
            blocks,
            again: VecDeque::new(),
            request: 0,
            sent: VecDeque::new(),
            sent_bytes: 0,
            sent_bytes_kept,
            sent_begins: TextPosition::default(),
            taken: TextPosition::default(),
            is_array: None,
            is_within_array: false,
            prefix: None,
            cut: None,
            request_bytes: 0,
            request_begins: TextPosition::default(),
            edges: Edges::at_start(),
            is_ended: false,
            same_bytes: None,
        }
    }

    /// Requests are numbered, and end at edges between events.
    pub(super) fn cut(&mut self, cut: CutBodies) {
        self.cut = Some(cut);
    }

    /// The blocks begin where a numbered request did.
    pub(super) fn restart_at(&mut self, from: TextPosition) {
        self.taken = from;
        self.is_array = Some(false);
    }

    /// The blocks begin not at the input's beginning.
    pub(super) fn begin_at(&mut self, from: TextPosition, is_array: bool) {
        self.taken = from;
        self.is_array = Some(is_array);
        self.is_within_array = is_array;
    }

    /// Begins a request with the next block; answers its number and where its body begins.
    pub(super) fn begin(&mut self) -> (u64, TextPosition) {
        self.request += 1;
        self.forget();
        self.sent_begins = self.taken;
        self.request_begins = self.taken;
        self.request_bytes = 0;
        self.is_ended = false;
        self.edges = match self.cut {
            Some(cut) if !cut.by_time => Edges::anywhere(),
            _ => Edges::at_start(),
        };
        let mut begins = self.taken;
        if std::mem::take(&mut self.is_within_array) {
            self.prefix = Some(Bytes::from_static(b"["));
            begins.column -= 1;
        }
        (self.request, begins)
    }

    /// The request is answered: it gets nothing more.
    pub(super) fn answered(&mut self) {
        self.request += 1;
        self.prefix = None;
    }

    /// The request is done with, and the next one is another.
    pub(super) fn done(&mut self) {
        self.forget();
        self.same_bytes = None;
    }

    /// The next request is the same again, to the byte where its body had ended; false where not all of it is kept.
    pub(super) fn again(&mut self) -> bool {
        if self.sent_begins != self.request_begins {
            return false;
        }
        for block in std::mem::take(&mut self.sent).into_iter().rev() {
            self.again.push_front(Ok(block));
        }
        self.forget();
        self.taken = self.request_begins;
        if self.is_ended {
            self.same_bytes = Some(self.request_bytes);
        }
        true
    }

    /// Start of the request.
    pub(super) fn request_begins(&self) -> TextPosition {
        self.request_begins
    }

    /// Ends the body of a request where its time is over, if that is between two events.
    pub(super) fn end(&mut self, request: u64) -> bool {
        let ends = request == self.request && self.same_bytes.is_none() && self.edges.is_at_edge();
        self.is_ended |= ends;
        ends
    }

    /// All that it took is done with.
    fn forget(&mut self) {
        self.sent.clear();
        self.sent_bytes = 0;
    }

    /// The next request begins at a place in what this one took.
    pub(super) fn rewind_to(&mut self, to: TextPosition) -> anyhow::Result<()> {
        if to < self.sent_begins {
            bail!("the events from line {} on are no longer buffered for a retry", to.line);
        }
        let mut at = self.sent_begins;
        let mut rest = Vec::new();
        for mut block in std::mem::take(&mut self.sent) {
            let behind = at.behind(&block);
            block.advance(at.find(to, &block));
            if !block.is_empty() {
                rest.push(Ok(block));
            }
            at = behind;
        }
        rest.into_iter().rev().for_each(|block| self.again.push_front(block));
        self.forget();
        self.is_within_array = self.is_array == Some(true) && to > TextPosition::default();
        self.taken = to;
        Ok(())
    }

    /// Returns true if there is another block.
    pub(super) fn poll_more(&mut self, context: &mut TaskContext<'_>) -> Poll<bool> {
        loop {
            match self.again.front_mut() {
                Some(Ok(block)) if self.is_within_array => {
                    let separates = |byte: &u8| *byte == b',' || byte.is_ascii_whitespace();
                    let element = block.iter().position(|byte| !separates(byte)).unwrap_or(block.len());
                    self.taken = self.taken.behind(&block.split_to(element));
                    if !block.is_empty() {
                        return Poll::Ready(true);
                    }
                    self.again.pop_front();
                }
                Some(_) => return Poll::Ready(true),
                None => match std::task::ready!(self.blocks.poll_recv(context)) {
                    Some(block) => self.again.push_back(block),
                    None => return Poll::Ready(false),
                },
            }
        }
    }

    /// The next block of a request's body.
    pub(super) fn poll(
        &mut self,
        request: u64,
        context: &mut TaskContext<'_>,
    ) -> Poll<Option<io::Result<Bytes>>> {
        if request != self.request {
            return Poll::Pending;
        }
        if let Some(prefix) = self.prefix.take() {
            return Poll::Ready(Some(Ok(prefix)));
        }
        let is_full = match (self.same_bytes, self.cut) {
            (Some(bytes), _) => self.request_bytes >= bytes,
            (None, Some(cut)) => self.request_bytes >= cut.bytes && self.edges.is_at_edge(),
            (None, None) => false,
        };
        if is_full {
            self.is_ended = true;
            return Poll::Ready(None);
        }
        let mut block = match self.again.pop_front() {
            Some(block) => Some(block),
            None => std::task::ready!(self.blocks.poll_recv(context)),
        };
        if let Some(Ok(block)) = &mut block {
            let rest = block.split_off(self.body_end(block));
            if !rest.is_empty() {
                self.again.push_front(Ok(rest));
            }
            self.retain_block(block);
        }
        Poll::Ready(block)
    }

    /// Number of a block's bytes that belong to the request's body.
    fn body_end(&mut self, block: &[u8]) -> usize {
        if let Some(bytes) = self.same_bytes {
            return block.len().min(bytes.saturating_sub(self.request_bytes));
        }
        let Some(cut) = self.cut else { return block.len() };
        let from = cut.bytes.saturating_sub(self.request_bytes);
        // Edges before that are of no use, unless time may end the body.
        let passed = if cut.by_time { 0 } else { from.min(block.len()) };
        passed + self.edges.read(&block[passed..], from - passed)
    }

    fn retain_block(&mut self, block: &Bytes) {
        self.is_array = self.is_array.or_else(|| is_array(block));
        self.taken = self.taken.behind(block);
        self.request_bytes += block.len();
        self.sent_bytes += block.len();
        self.sent.push_back(block.clone());
        while self.sent_bytes > self.sent_bytes_kept
            && let Some(first) = self.sent.pop_front()
        {
            self.sent_bytes -= first.len();
            self.sent_begins = self.sent_begins.behind(&first);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[test]
    fn places_are_found() {
        let text = b"ab\ncd\n\ne";
        let begins = TextPosition { line: 4, column: 3 };
        for at in 0..=text.len() {
            let place = begins.behind(&text[..at]);
            assert_eq!(begins.find(place, text), at, "{place:?}");
            assert_eq!(begins.plus(TextPosition::default().behind(&text[..at])), place);
        }
        assert_eq!(begins.find(TextPosition { line: 9, column: 1 }, text), text.len());
    }

    async fn taken(blocks: &mut SharedBlocks) -> String {
        let mut all = Vec::new();
        if poll_fn(|context| blocks.poll_more(context)).await {
            let (request, _) = blocks.begin();
            while let Some(block) = poll_fn(|context| blocks.poll(request, context)).await {
                all.extend_from_slice(&block.unwrap());
            }
        }
        String::from_utf8(all).unwrap()
    }

    async fn check(text: &'static [u8], to: TextPosition, rest: &str) {
        for size in 1..=text.len() {
            let (sender, receiver) = mpsc::channel(text.len());
            text.chunks(size).for_each(|block| sender.try_send(Ok(Bytes::from_static(block))).unwrap());
            drop(sender);
            let mut blocks = SharedBlocks::new(receiver, 1000);
            assert_eq!(taken(&mut blocks).await.as_bytes(), text);
            blocks.rewind_to(to).unwrap();
            assert_eq!(taken(&mut blocks).await, rest, "in blocks of {size}");
            // The same of what is read again.
            let (mut reader, is_array) = skip(Box::new(text), to).unwrap();
            let (sender, receiver) = mpsc::channel(1);
            let mut again = Vec::new();
            reader.read_to_end(&mut again).unwrap();
            sender.try_send(Ok(again.into())).unwrap();
            drop(sender);
            let mut blocks = SharedBlocks::new(receiver, 1000);
            blocks.begin_at(to, is_array);
            assert_eq!(taken(&mut blocks).await, rest);
        }
    }

    #[tokio::test]
    async fn what_was_not_taken_is_sent_again() {
        check(b"{\"a\":1}\n{\"a\":2}\n{}", TextPosition { line: 2, column: 1 }, "{\"a\":2}\n{}").await;
        check(b"{} {\"a\":2}", TextPosition { line: 1, column: 4 }, "{\"a\":2}").await;
        check(b" [{},\n {\"a\":2}]", TextPosition { line: 2, column: 2 }, "[{\"a\":2}]").await;
        check(b"[{},\n {\"a\":2}]", TextPosition { line: 1, column: 4 }, "[{\"a\":2}]").await;
    }

    #[tokio::test]
    async fn numbered_request_is_cut_at_the_same_place_and_sent_again_whole() {
        let text = b"{\"a\":1}\n{\"a\":2}\n{\"a\":3}\n{\"a\":4}\n{\"a\":5}\n";
        for by_time in [false, true] {
            for size in 1..=text.len() {
                let (sender, receiver) = mpsc::channel(text.len());
                text.chunks(size).for_each(|block| sender.try_send(Ok(Bytes::from_static(block))).unwrap());
                drop(sender);
                let mut blocks = SharedBlocks::new(receiver, 1000);
                blocks.cut(CutBodies { bytes: 9, by_time });
                let mut requests = Vec::new();
                loop {
                    let first = taken(&mut blocks).await;
                    if first.is_empty() {
                        break;
                    }
                    assert!(blocks.again(), "all of it is kept");
                    assert_eq!(taken(&mut blocks).await, first, "in blocks of {size}");
                    blocks.done();
                    requests.push(first);
                }
                let expected: &[usize] = if by_time { &[16, 16, 8] } else { &[24, 16] };
                let bytes: Vec<usize> = requests.iter().map(String::len).collect();
                assert_eq!((bytes.as_slice(), requests.concat().as_bytes()), (expected, &text[..]), "{size}");
            }
        }
    }

    #[tokio::test]
    async fn what_is_kept_is_bounded_and_an_answered_body_gets_no_more() {
        let (sender, receiver) = mpsc::channel(8);
        for block in ["1\n", "2\n", "3\n"] {
            sender.try_send(Ok(Bytes::from_static(block.as_bytes()))).unwrap();
        }
        let mut blocks = SharedBlocks::new(receiver, 4);
        let (request, begins) = blocks.begin();
        assert_eq!(begins, TextPosition::default());
        for _ in 0..3 {
            assert!(poll_fn(|context| blocks.poll(request, context)).await.is_some());
        }
        blocks.answered();
        drop(sender);
        let more = poll_fn(|context| Poll::Ready(blocks.poll(request, context).is_ready())).await;
        assert!(!more);
        assert!(blocks.rewind_to(TextPosition::default()).is_err());
        blocks.rewind_to(TextPosition { line: 3, column: 1 }).unwrap();
        assert_eq!(taken(&mut blocks).await, "3\n");
    }
}
