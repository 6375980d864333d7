//! `swiftwater top`: shows a server's streams, shards and queries, and refreshes the display.

mod picture;
mod screen;
mod snapshot;

use std::{process::ExitCode, sync::Arc, time::Duration};

use anyhow::Context;
use swiftwater_event::Clock;

use crate::{
    args::{TopArgs, TopSort},
    client::Client,
    exit::{Failure, Outcome},
    output::terminal_size,
    signals::{Interrupts, client_runtime},
    stdio,
};
use picture::picture;
use screen::{Key, Screen};
use snapshot::Snapshot;

/// Interval between the two readings whose difference `--once` shows.
const ONCE_APART: Duration = Duration::from_millis(300);
/// Columns of a picture that nobody looks at on a terminal.
const COLUMNS_WITHOUT_TERMINAL: usize = 160;

/// Runs the command.
pub(crate) fn run(args: &TopArgs, clock: Arc<dyn Clock>) -> Outcome {
    let client = Client::new(args.client.url())?;
    let runtime = client_runtime().context("cannot start")?;
    if args.once || !stdio::stdout_is_terminal() {
        let text = runtime.block_on(async {
            let before = Snapshot::take(&client, &*clock, args.sort).await?;
            tokio::time::sleep(ONCE_APART).await;
            let now = Snapshot::take(&client, &*clock, args.sort).await?;
            anyhow::Ok(picture(
                args.client.url(),
                &before,
                &now,
                args.sort,
                usize::MAX,
                COLUMNS_WITHOUT_TERMINAL,
            ))
        })?;
        return stdio::write_out(|out| text.iter().try_for_each(|line| writeln!(out, "{line}")));
    }
    runtime.block_on(live(args, &client, &*clock))
}

async fn live(args: &TopArgs, client: &Client, clock: &dyn Clock) -> Outcome {
    let mut before = Snapshot::take(client, clock, args.sort).await?;
    let mut interrupts = Interrupts::catch().context("cannot catch signals")?;
    let size = terminal_size();
    let (mut screen, mut keys) = Screen::open().context("cannot open the terminal")?;
    let mut sort = args.sort;
    let mut wait = ONCE_APART;
    let mut now = before.clone();
    loop {
        tokio::select! {
            _ = interrupts.next() => break,
            () = tokio::time::sleep(wait) => {
                before = now;
                now = Snapshot::take(client, clock, sort).await?;
                wait = args.interval;
            }
            key = keys.recv() => match key {
                Some(Key::Quit) => break,
                Some(Key::Sort(by)) => sort = by,
                None => return Err(anyhow::anyhow!("the terminal was closed").into()),
            },
        }
        let (rows, columns) = size();
        let lines = picture(args.client.url(), &before, &now, sort, rows, columns);
        screen.draw(&lines).map_err(Failure::output)?;
    }
    Ok(ExitCode::SUCCESS)
}

impl TopSort {
    /// The key that chooses it.
    fn of_key(key: u8) -> Option<TopSort> {
        match key {
            b'c' => Some(TopSort::Cpu),
            b's' => Some(TopSort::State),
            b'm' => Some(TopSort::Matches),
            b'o' => Some(TopSort::Out),
            b'a' => Some(TopSort::Age),
            _ => None,
        }
    }
}
