//! The settings of a node of a cluster.

use super::{Key, Kind, Value};

const SECOND: u64 = 1000;
const KIB: u64 = 1 << 10;
const TIB: u64 = 1 << 40;

pub(super) fn keys() -> Vec<Key> {
    vec![
        text!(
            "cluster.name",
            Kind::Text(name_or_empty),
            cluster.name,
            "Name of the cluster that this server is a node of; its topics begin with `_swiftwater.NAME`. Empty: none."
        ),
        text!(
            "cluster.node_id",
            Kind::Text(name_or_empty),
            cluster.node_id,
            "Name of this node, which no other node of the cluster has. Empty: made of `cluster.advertise`, as `10.0.0.5-8080`."
        ),
        text!(
            "cluster.advertise",
            Kind::Text(address_or_empty),
            cluster.advertise,
            "Address by which clients and other nodes reach this node, such as `http://10.0.0.5:8080`. Empty: requests cannot be passed on to it."
        ),
        text!(
            "cluster.roles",
            Kind::Text(roles),
            cluster.roles,
            "Work that this node takes, separated by commas: `work` reads partitions, `serve` takes queries, `receive` takes events."
        ),
        text!(
            "cluster.connection",
            Kind::Text(|_| Ok(())),
            cluster.connection,
            "Connection of `[kafka.NAME]` that the cluster is reached by."
        ),
        number!(
            "cluster.flush_ms",
            Kind::Millis(1, 10 * SECOND),
            cluster.flush_ms,
            "Maximum time between a match on a node and its message to the node that serves the query."
        ),
        number!(
            "cluster.partial_wait_ms",
            Kind::Millis(1, 3600 * SECOND),
            cluster.partial_wait_ms,
            "Time that a window waits for partitions that are behind, after others are done. Then it is answered without them, and says so."
        ),
        number!(
            "cluster.event_bytes_per_second",
            Kind::Bytes(64 * KIB, TIB),
            cluster.event_bytes_per_second,
            "Bytes of events per second, by their messages' times, that a query may have if one node computes it from events; four times as many at once. With more, it ends with an error."
        ),
        text!(
            "cluster.group_protocol",
            Kind::Text(group_protocol),
            cluster.group_protocol,
            "Protocol of the consumer groups of the nodes, the same on all of them: `classic`, or `consumer` (KIP-848, Kafka 4.0 and later), with which the brokers decide the session's timeout."
        ),
        number!(
            "cluster.session_timeout_ms",
            Kind::Millis(6 * SECOND, 1800 * SECOND),
            cluster.session_timeout_ms,
            "Time without a heartbeat after which the partitions of a node go to others."
        ),
    ]
}

fn name_or_empty(text: &str) -> Result<(), String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    match text.len() <= 200 && text.chars().all(is_part) {
        true => Ok(()),
        false => Err("a name has 1 to 200 of A-Z, a-z, 0-9, `.`, `_` and `-`".to_owned()),
    }
}

fn address_or_empty(text: &str) -> Result<(), String> {
    let rest = ["http://", "https://"].iter().find_map(|scheme| text.strip_prefix(scheme));
    let is_address = |rest: &str| {
        !rest.is_empty()
            && !rest.starts_with('/')
            && rest.bytes().all(|byte| byte.is_ascii_graphic() && !b";?#".contains(&byte))
    };
    match text.is_empty() || rest.is_some_and(is_address) {
        true => Ok(()),
        false => Err("an address is such as `http://10.0.0.5:8080`".to_owned()),
    }
}

/// The roles of a text.
pub(crate) fn roles_of(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim)
}

fn roles(text: &str) -> Result<(), String> {
    let is_role = |role: &str| matches!(role, "work" | "serve" | "receive");
    match roles_of(text).find(|role| !is_role(role)) {
        None => Ok(()),
        Some(other) => Err(format!("`{other}` is not a role of a node: there are work, serve and receive")),
    }
}

fn group_protocol(text: &str) -> Result<(), String> {
    match text {
        "classic" | "consumer" => Ok(()),
        _ => Err("is not `classic` or `consumer`".to_owned()),
    }
}
