//! Generates records of probes in a telephone network. A record has 62 dimensions and 20 measures in nested objects, an
//! envelope (`seq`, `tsStart`, `tsEnd`), and a part that no query reads (`raw`). It has about 2 KB, 40 % of it unread. All
//! of it is invented.
//!
//! Dependent values are consistent ([`network`]): a cell has one enb, region and vendor, a device's `tac` one vendor and
//! model. A rollup over any dimension therefore adds up to the grand total, and those over a cell and over its enb agree.

mod fragments;
mod measures;
mod network;

pub use self::measures::MEASURES;
use self::{
    measures::Measures,
    network::{CELLS, Network},
};
use crate::{Events, rng::Rng, zipf::Zipf};

/// The parameters of records.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TelecomSettings {
    /// Skew of Zipf's law, by which some cells, devices, hosts and so on come more often than others; 0: all alike.
    pub skew: f64,
    /// Instead of `svc` and `meas` a record has `flows`, a list of one to eight objects with a `svc` and a `meas` each.
    pub flows: bool,
    /// End of the first record, in milliseconds since 1970.
    pub start_ms: i64,
    /// Number of records that end in a second of their own time, all at even distances.
    pub events_per_second: f64,
    /// Number of message parts, of some 290 bytes each, that no query reads, in `raw`: none makes records of 1.4 KB, 20
    /// such of 7 KB. At most [`NOISE_MAX`].
    pub noise: u32,
}

/// The most that [`TelecomSettings::noise`] may be.
pub const NOISE_MAX: u32 = 1000;

impl Default for TelecomSettings {
    /// Records from 2026 on, 100,000 a second.
    fn default() -> TelecomSettings {
        TelecomSettings {
            skew: 1.0,
            flows: false,
            start_ms: 1_767_225_600_000,
            events_per_second: 100_000.0,
            noise: 2,
        }
    }
}

/// Paths of the 62 dimensions in a record; with flows, those of `svc` in each of them.
pub const DIMENSIONS: [&str; 62] = [
    "probe.id",
    "probe.vendor",
    "probe.sw",
    "probe.site",
    "probe.link",
    "probe.iface",
    "rec.type",
    "rec.procedure",
    "rec.close",
    "sub.hash",
    "sub.segment",
    "sub.plan",
    "sub.contract",
    "sub.homeMcc",
    "sub.homeMnc",
    "sub.roaming",
    "dev.tac",
    "dev.vendor",
    "dev.model",
    "dev.os",
    "dev.osVer",
    "dev.type",
    "dev.volte",
    "dev.cat",
    "radio.rat",
    "radio.mcc",
    "radio.mnc",
    "radio.tac",
    "radio.enb",
    "radio.cell",
    "radio.sector",
    "radio.band",
    "radio.earfcn",
    "radio.cellType",
    "radio.vendor",
    "radio.region",
    "core.mme",
    "core.sgw",
    "core.pgw",
    "core.pcrf",
    "core.apn",
    "core.pdnType",
    "core.qci",
    "core.arp",
    "core.bearer",
    "svc.app",
    "svc.cat",
    "svc.proto",
    "svc.l4",
    "svc.host",
    "svc.cdn",
    "svc.tls",
    "svc.httpClass",
    "svc.video",
    "svc.country",
    "svc.asn",
    "out.status",
    "out.layer",
    "out.cause",
    "out.sub",
    "out.stage",
    "out.retry",
];

/// The most flows of a record.
const FLOWS_MAX: usize = 8;
/// Number of successful records in a hundred.
const WELL: usize = 92;

/// The frequency of each value.
#[derive(Debug)]
struct Draws {
    link: Zipf,
    procedure: Zipf,
    subscriber: Zipf,
    device: Zipf,
    cell: Zipf,
    apn: Zipf,
    bearer: Zipf,
    app: Zipf,
    host_of_app: Zipf,
    session: Zipf,
    outcome: Zipf,
}

/// See the head of this module.
#[derive(Debug)]
pub(crate) struct Telecom {
    rng: Rng,
    settings: TelecomSettings,
    network: Network,
    draws: Draws,
    seq: u64,
}

impl Telecom {
    pub(crate) fn new(seed: u64, settings: &TelecomSettings) -> Telecom {
        let network = Network::new();
        let zipf = |count: usize| Zipf::new(count, settings.skew);
        let draws = Draws {
            link: zipf(network.links.count()),
            procedure: zipf(network.procedures.count()),
            subscriber: zipf(network::SUBSCRIBERS),
            device: zipf(network.devices.count()),
            cell: zipf(CELLS),
            apn: zipf(network.apns.count()),
            bearer: zipf(network.bearers.count()),
            app: zipf(network.apps.count()),
            host_of_app: zipf(network::HOSTS_OF_APP),
            session: zipf(network.sessions.count()),
            outcome: zipf(network.outcomes.count()),
        };
        Telecom { rng: Rng::new(seed), settings: *settings, network, draws, seq: 0 }
    }

    /// Adds `"svc":{…},"meas":{…}`.
    #[inline]
    fn flow(&mut self, measures: &Measures, out: &mut Vec<u8>) {
        let Telecom { rng, network, draws, .. } = self;
        let app = draws.app.draw(rng);
        let host = app * network::HOSTS_OF_APP + draws.host_of_app.draw(rng);
        out.extend_from_slice(b"\"svc\":{");
        out.extend_from_slice(network.apps.get(app));
        out.extend_from_slice(network.hosts.get(host));
        out.extend_from_slice(network.sessions.get(draws.session.draw(rng)));
        out.extend_from_slice(b"},\"meas\":{");
        measures.write(out);
        out.push(b'}');
    }
}

impl Events for Telecom {
    fn push(&mut self, out: &mut Vec<u8>) {
        let seq = self.seq;
        self.seq += 1;
        let end = self.settings.start_ms + (seq as f64 * 1000.0 / self.settings.events_per_second) as i64;
        let measures = Measures::draw(&mut self.rng);
        let mut digits = itoa::Buffer::new();
        out.extend_from_slice(b"{\"seq\":");
        out.extend_from_slice(digits.format(seq).as_bytes());
        out.extend_from_slice(b",\"tsStart\":");
        out.extend_from_slice(digits.format(end - i64::from(measures.duration_ms())).as_bytes());
        out.extend_from_slice(b",\"tsEnd\":");
        out.extend_from_slice(digits.format(end).as_bytes());

        let Telecom { rng, network, draws, .. } = self;
        out.extend_from_slice(b",\"probe\":{");
        out.extend_from_slice(network.links.get(draws.link.draw(rng)));
        out.extend_from_slice(b"},\"rec\":{");
        out.extend_from_slice(network.procedures.get(draws.procedure.draw(rng)));
        let subscriber = draws.subscriber.draw(rng);
        out.extend_from_slice(b"},\"sub\":{\"hash\":\"");
        network::push_hash(subscriber, out);
        out.extend_from_slice(network.subscriptions.get(network::subscription_of(subscriber)));
        out.extend_from_slice(b"},\"dev\":{");
        out.extend_from_slice(network.devices.get(draws.device.draw(rng)));
        out.extend_from_slice(b"},\"radio\":{");
        out.extend_from_slice(network.cells.get(draws.cell.draw(rng)));
        out.extend_from_slice(b"},\"raw\":{\"msgs\":");
        out.extend_from_slice(network.messages.get(rng.below(network.messages.count())));
        out.extend_from_slice(b",\"ies\":[");
        for place in 0..self.settings.noise {
            if place > 0 {
                out.push(b',');
            }
            out.extend_from_slice(network.elements.get(rng.below(network.elements.count())));
        }
        out.extend_from_slice(b"]},\"core\":{");
        let nodes = rng.bits();
        out.extend_from_slice(network.mobility.get((nodes & 255) as usize));
        out.extend_from_slice(network.gateways.get((nodes >> 8 & 127) as usize));
        out.extend_from_slice(network.apns.get(draws.apn.draw(rng)));
        out.extend_from_slice(network.bearers.get(draws.bearer.draw(rng)));
        let outcome = match rng.below(100) {
            ..WELL => 0,
            _ => draws.outcome.draw(rng),
        };
        out.extend_from_slice(b"},\"out\":{");
        out.extend_from_slice(network.outcomes.get(outcome));
        out.extend_from_slice(b"},");
        if self.settings.flows {
            out.extend_from_slice(b"\"flows\":[");
            for place in 0..=self.rng.below(FLOWS_MAX) {
                out.extend_from_slice(if place > 0 { b",{" } else { b"{" });
                let measures = Measures::draw(&mut self.rng);
                self.flow(&measures, out);
                out.push(b'}');
            }
            out.push(b']');
        } else {
            self.flow(&measures, out);
        }
        out.extend_from_slice(b"}\n");
    }
}
