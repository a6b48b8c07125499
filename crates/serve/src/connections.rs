//! The open connections, and which of them has to go when there are too many.
//!
//! A connection *waits* while its client has not sent a whole request, *works* from then until the answer is sent, and is
//! *stuck* while its client does not take the answer. When all places are taken, the one that has waited or been stuck
//! longest makes room for the new one: so clients that open connections and say nothing, or a byte now and then, or do
//! not listen, never keep out one that asks something.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// A client may be so long behind with listening before its place can be given away.
const STUCK: Duration = Duration::from_millis(500);

/// One connection, shared by the task that serves it and the list of all.
#[derive(Debug)]
pub struct Connection {
    since: Mutex<(Activity, Instant)>,
    stuck: Mutex<Option<Instant>>,
    /// Told when the connection has to go.
    pub close: Notify,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Activity {
    Waits,
    Works,
}

impl Connection {
    fn new() -> Connection {
        Connection {
            since: Mutex::new((Activity::Waits, Instant::now())),
            stuck: Mutex::new(None),
            close: Notify::new(),
        }
    }

    fn set(&self, activity: Activity) {
        *self.since.lock().unwrap_or_else(PoisonError::into_inner) = (activity, Instant::now());
    }

    /// A whole request is here.
    pub fn works(&self) {
        self.set(Activity::Works);
    }

    /// The answer is sent.
    pub fn waits(&self) {
        self.set(Activity::Waits);
    }

    /// The client does not take what there is to send, or does so again.
    pub fn set_stuck(&self, stuck: bool) {
        let mut since = self.stuck.lock().unwrap_or_else(PoisonError::into_inner);
        *since = if stuck { since.or_else(|| Some(Instant::now())) } else { None };
    }

    /// Since when nothing useful has happened; `None` while there is work.
    fn idle_since(&self, patience: Duration) -> Option<Instant> {
        let stuck = *self.stuck.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(since) = stuck.filter(|since| since.elapsed() > STUCK) {
            return Some(since);
        }
        let (activity, since) = *self.since.lock().unwrap_or_else(PoisonError::into_inner);
        // Work has its own time limit: what takes much longer is a client that does not read its answer.
        (activity == Activity::Waits || since.elapsed() > patience).then_some(since)
    }
}

/// All connections.
#[derive(Debug)]
pub struct Connections {
    most: usize,
    patience: Duration,
    open: Mutex<(u64, HashMap<u64, Arc<Connection>>)>,
}

impl Connections {
    /// Places for `most` connections. One that works longer than `patience` counts as idle.
    pub fn new(most: usize, patience: Duration) -> Connections {
        Connections { most: most.max(1), patience, open: Mutex::new((0, HashMap::new())) }
    }

    /// A place for a new connection, or `None` if all others are at work. It is free again when it is dropped.
    pub fn admit(self: &Arc<Connections>) -> Option<Place> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.1.len() >= self.most && !close_longest_idle(&mut open.1, self.patience) {
            return None;
        }
        open.0 += 1;
        let (number, connection) = (open.0, Arc::new(Connection::new()));
        open.1.insert(number, Arc::clone(&connection));
        drop(open);
        Some(Place { connections: Arc::clone(self), number, connection })
    }

    /// Closes the connection that has been idle longest, if one is.
    pub fn make_room(&self) {
        close_longest_idle(&mut self.open.lock().unwrap_or_else(PoisonError::into_inner).1, self.patience);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).1.len()
    }
}

fn close_longest_idle(open: &mut HashMap<u64, Arc<Connection>>, patience: Duration) -> bool {
    let idle = open.iter().filter_map(|(&number, c)| Some((c.idle_since(patience)?, number)));
    let Some((_, number)) = idle.min() else { return false };
    if let Some(connection) = open.remove(&number) {
        connection.close.notify_one();
    }
    true
}

/// A connection's place in the list.
pub struct Place {
    connections: Arc<Connections>,
    number: u64,
    /// The connection.
    pub connection: Arc<Connection>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connections.open.lock().unwrap_or_else(PoisonError::into_inner).1.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gone(place: &Place) -> bool {
        !place.connections.open.lock().unwrap().1.contains_key(&place.number)
    }

    #[test]
    fn the_one_that_has_waited_longest_makes_room() {
        let all = Arc::new(Connections::new(3, Duration::from_secs(60)));
        let places: Vec<Place> = (0..3).filter_map(|_| all.admit()).collect();
        places[0].connection.works();
        let fourth = all.admit().expect("one is idle");
        assert_eq!([gone(&places[0]), gone(&places[1]), gone(&places[2])], [false, true, false]);
        assert_eq!(all.len(), 3);
        places[0].connection.waits();
        places[2].connection.works();
        fourth.connection.works();
        let fifth = all.admit().expect("one is idle again");
        assert!(gone(&places[0]));
        fifth.connection.works();
        assert!(all.admit().is_none());
        drop(fifth);
        assert!(all.admit().is_some());
    }

    #[test]
    fn work_that_never_ends_counts_as_idle() {
        let all = Arc::new(Connections::new(1, Duration::ZERO));
        let stuck = all.admit().expect("there is room");
        stuck.connection.works();
        std::thread::sleep(Duration::from_millis(2));
        assert!(all.admit().is_some() && gone(&stuck));
    }
}
