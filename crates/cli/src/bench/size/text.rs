//! Prints the computed sizes, as aligned columns and as a document.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{Part, Sized, TopicSize};
use crate::output::grouped;

/// The text for people.
pub(super) fn table(sized: &Sized) -> String {
    let load = &sized.load;
    let mut out = format!(
        "{} events/s of {:.0} bytes, {} queries\n\n",
        grouped(load.events_per_second as u64),
        load.bytes,
        grouped(load.queries as u64)
    );
    let head = ["PART", "NS/EVENT", "CORES", "MEMORY", "DISK", "NETWORK"];
    line(&mut out, head.map(str::to_owned), "MADE OF");
    for part in sized.parts.iter().chain([&sized.total]) {
        line(&mut out, cells(part), &part.made_of);
    }
    let each = |all: f64| if all > 0.0 { size(all / sized.machines) } else { "nothing".to_owned() };
    // Writing to memory does not fail.
    let _ = writeln!(
        out,
        "\n{:.0} cores, {:.0} % of them busy; {:.0} machine{} of {:.0} cores, by {}: each {} in memory, {} on disk",
        sized.cores,
        100.0 * load.busy,
        sized.machines,
        if sized.machines > 1.0 { "s" } else { "" },
        load.machine_cores,
        sized.decided_by,
        each(sized.total.memory_bytes),
        each(sized.total.disk_bytes),
    );
    match &sized.topic {
        // The copies of Kafka's log are not in the figures of the machines.
        Some(TopicSize { partitions, brokers }) => {
            let _ = writeln!(
                out,
                "each machine is a node of a cluster; the topic needs at least {partitions:.0} partitions, on {brokers:.0} brokers of their \
                 own with three copies"
            );
        }
        None if sized.machines > 1.0 => {
            out.push_str("each machine is a server with a part of the streams\n");
        }
        None => {}
    }
    let _ = writeln!(out, "costs: {}", sized.source);
    out
}

fn line(out: &mut String, cells: [String; 6], made_of: &str) {
    let [name, nanos, cores, memory, disk, network] = cells;
    let text = format!("{name:<17} {nanos:>9} {cores:>8} {memory:>10} {disk:>10} {network:>12}  {made_of}");
    out.push_str(text.trim_end());
    out.push('\n');
}

fn cells(part: &Part) -> [String; 6] {
    let or_none = |number: f64, text: String| if number > 0.0 { text } else { "-".to_owned() };
    let network = part.network_bytes_per_second;
    [
        part.name.to_owned(),
        or_none(part.nanos_per_event, format!("{:.0}", part.nanos_per_event)),
        or_none(part.cores, format!("{:.2}", part.cores)),
        or_none(part.memory_bytes, size(part.memory_bytes)),
        or_none(part.disk_bytes, size(part.disk_bytes)),
        or_none(network, format!("{}/s", size(network))),
    ]
}

/// Bytes in the unit that fits.
fn size(bytes: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut bytes = bytes;
    for unit in units {
        if bytes < 1024.0 {
            return if bytes < 10.0 { format!("{bytes:.1} {unit}") } else { format!("{bytes:.0} {unit}") };
        }
        bytes /= 1024.0;
    }
    format!("{bytes:.0} EiB")
}

/// A number without digits that say nothing.
pub(super) fn plain(number: f64) -> String {
    let text = format!("{number:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The JSON for programs.
pub(super) fn document(sized: &Sized) -> Value {
    let load = &sized.load;
    json!({
        "events_per_second": load.events_per_second as u64,
        "bytes": load.bytes,
        "queries": load.queries as u64,
        "matches": load.matches,
        "record_bytes": load.record_bytes,
        "keys": load.keys as u64,
        "keep_days": load.keep_seconds / super::DAY_SECONDS,
        "compressed_to": load.compressed_to,
        "events_per_request": load.events_per_request as u64,
        "parts": sized.parts.iter().map(part).collect::<Vec<_>>(),
        "total": part(&sized.total),
        "busy": load.busy,
        "cores": sized.cores as u64,
        "machines": sized.machines as u64,
        "machine_cores": load.machine_cores as u64,
        "decided_by": sized.decided_by,
        "topic": sized.topic.map(|topic| {
            json!({ "partitions": topic.partitions as u64, "brokers": topic.brokers as u64 })
        }),
        "source": sized.source,
    })
}

fn part(part: &Part) -> Value {
    json!({
        "name": part.name,
        "nanoseconds_per_event": part.nanos_per_event,
        "cores": part.cores,
        "memory_bytes": part.memory_bytes,
        "disk_bytes": part.disk_bytes,
        "network_bytes_per_second": part.network_bytes_per_second,
        "made_of": part.made_of,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_unit_that_fits() {
        let told: Vec<_> = [0.0, 1023.0, 1536.0, 20.0 * 1048576.0, 3e12].into_iter().map(size).collect();
        assert_eq!(told, ["0.0 B", "1023 B", "1.5 KiB", "20 MiB", "2.7 TiB"]);
        assert_eq!((plain(30.0), plain(0.5)), ("30".to_owned(), "0.5".to_owned()));
    }
}
