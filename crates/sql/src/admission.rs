//! Admission control: limits how many statements run and wait, in total and for each client.
//!
//! At most `statements_max` statements run at once, and `statements_waiting_max` wait for their turn. One client may have
//! `statements_max_per_client` statements running, and may use half of the waiting places. One client therefore never
//! takes all places. A client is an address: the clients behind one proxy share. Statements without a client are the
//! server's own; the per-client limit does not apply to them. A statement first waits for one of its client's own places,
//! so it takes no place from other clients meanwhile.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{ErrorKind, SqlError, SqlOptions};

/// Admits statements, so many at a time.
pub(crate) struct AdmissionControl {
    all: Arc<Semaphore>,
    statements_max_per_client: usize,
    waiting_max: usize,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    waiting: usize,
    /// Clients with a statement that runs or waits.
    clients: HashMap<IpAddr, Client>,
}

struct Client {
    turns: Arc<Semaphore>,
    statements: usize,
    waiting: usize,
}

impl AdmissionControl {
    pub(crate) fn new(options: &SqlOptions) -> AdmissionControl {
        let all = options.statements_max.max(1);
        let share = match options.statements_max_per_client {
            0 => (all * 3 / 4).max(1),
            share => share.min(all),
        };
        AdmissionControl {
            all: Arc::new(Semaphore::new(all)),
            statements_max_per_client: share,
            waiting_max: options.statements_waiting_max,
            counts: Mutex::default(),
        }
    }

    /// Waits until a statement is admitted, if not too many wait.
    pub(crate) async fn admit(
        self: &Arc<AdmissionControl>,
        client: Option<IpAddr>,
    ) -> Result<AdmissionPermit, SqlError> {
        let counted = ClientSlot::new(Arc::clone(self), client);
        let own = match counted.turns() {
            None => None,
            Some(turns) => Some(self.permit(turns, client).await?),
        };
        let all = self.permit(Arc::clone(&self.all), client).await?;
        Ok(AdmissionPermit { _own: own, _all: all, _counted: counted })
    }

    async fn permit(
        &self,
        turns: Arc<Semaphore>,
        client: Option<IpAddr>,
    ) -> Result<OwnedSemaphorePermit, SqlError> {
        if let Ok(permit) = Arc::clone(&turns).try_acquire_owned() {
            return Ok(permit);
        }
        let waiting = WaitingSlot::begin(self, client)?;
        let permit = turns.acquire_owned().await;
        drop(waiting);
        permit.map_err(|error| SqlError::internal("SQL is shut down").with_source(error))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The admission of a statement, until it is dropped.
pub(crate) struct AdmissionPermit {
    _own: Option<OwnedSemaphorePermit>,
    _all: OwnedSemaphorePermit,
    _counted: ClientSlot,
}

/// Counts a statement of a client, while there is one.
struct ClientSlot {
    turns: Arc<AdmissionControl>,
    client: Option<IpAddr>,
}

impl ClientSlot {
    fn new(turns: Arc<AdmissionControl>, client: Option<IpAddr>) -> ClientSlot {
        if let Some(address) = client {
            let share = turns.statements_max_per_client;
            let mut counts = turns.lock();
            let client = counts.clients.entry(address).or_insert_with(|| Client {
                turns: Arc::new(Semaphore::new(share)),
                statements: 0,
                waiting: 0,
            });
            client.statements += 1;
        }
        ClientSlot { turns, client }
    }

    fn turns(&self) -> Option<Arc<Semaphore>> {
        let counts = self.turns.lock();
        Some(Arc::clone(&counts.clients.get(&self.client?)?.turns))
    }
}

impl Drop for ClientSlot {
    fn drop(&mut self) {
        let Some(address) = self.client else { return };
        let mut counts = self.turns.lock();
        if let Some(client) = counts.clients.get_mut(&address) {
            client.statements -= 1;
            if client.statements == 0 {
                counts.clients.remove(&address);
            }
        }
    }
}

/// Counts a statement that waits, while it does.
struct WaitingSlot<'a> {
    turns: &'a AdmissionControl,
    client: Option<IpAddr>,
}

impl WaitingSlot<'_> {
    fn begin(turns: &AdmissionControl, client: Option<IpAddr>) -> Result<WaitingSlot<'_>, SqlError> {
        let mut counts = turns.lock();
        let refused =
            |what: String, hint: &str| Err(SqlError::new(ErrorKind::Unavailable, what).with_hint(hint));
        if counts.waiting >= turns.waiting_max {
            let what = format!("{} statements are already waiting", counts.waiting);
            return refused(what, "Try again later, or raise sql.statements_max.");
        }
        if let Some(client) = client.and_then(|address| counts.clients.get_mut(&address)) {
            if client.waiting >= turns.waiting_max.div_ceil(2) {
                let what = format!("{} statements of this client are already waiting", client.waiting);
                return refused(what, "Send fewer at once, or raise sql.statements_max_per_client.");
            }
            client.waiting += 1;
        }
        counts.waiting += 1;
        drop(counts);
        Ok(WaitingSlot { turns, client })
    }
}

impl Drop for WaitingSlot<'_> {
    fn drop(&mut self) {
        let mut counts = self.turns.lock();
        counts.waiting -= 1;
        if let Some(client) = self.client.and_then(|address| counts.clients.get_mut(&address)) {
            client.waiting -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn turns(statements_max: usize, waiting_max: usize) -> Arc<AdmissionControl> {
        Arc::new(AdmissionControl::new(&SqlOptions {
            statements_max,
            statements_waiting_max: waiting_max,
            ..SqlOptions::default()
        }))
    }

    fn client(number: u8) -> Option<IpAddr> {
        Some(IpAddr::from([10, 0, 0, number]))
    }

    #[tokio::test]
    async fn one_client_never_takes_all_places() {
        let turns = turns(4, 4);
        let mut held = Vec::new();
        for _ in 0..3 {
            held.push(turns.admit(client(1)).await.unwrap());
        }
        let mut fourth = Box::pin(turns.admit(client(1)));
        let mut fifth = Box::pin(turns.admit(client(1)));
        assert!((&mut fourth).now_or_never().is_none() && (&mut fifth).now_or_never().is_none());
        // Nor all places of those that wait.
        let refused = turns.admit(client(1)).await.err().unwrap();
        assert!(
            refused.to_string().starts_with("2 statements of this client are already waiting"),
            "{refused}"
        );
        let other = turns.admit(client(2)).await.unwrap();
        let mut own = Box::pin(turns.admit(None));
        assert!((&mut own).now_or_never().is_none());
        drop(other);
        drop(own.await.unwrap());
        held.pop();
        held.push(fourth.await.unwrap());
        held.clear();
        drop(fifth.await.unwrap());
        assert!(turns.lock().clients.is_empty() && turns.lock().waiting == 0);
    }

    #[tokio::test]
    async fn a_statement_that_goes_away_while_it_waits_counts_no_more() {
        let turns = turns(1, 1);
        let held = turns.admit(client(1)).await.unwrap();
        let mut waits = Box::pin(turns.admit(client(1)));
        assert!((&mut waits).now_or_never().is_none());
        assert!(turns.admit(client(2)).await.is_err());
        drop(waits);
        let mut next = Box::pin(turns.admit(client(2)));
        assert!((&mut next).now_or_never().is_none());
        drop(held);
        next.await.unwrap();
        assert!(turns.lock().clients.is_empty() && turns.lock().waiting == 0);
    }
}
