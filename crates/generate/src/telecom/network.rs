//! The network that the records describe: the same for every seed, as members of JSON objects that are concatenated.
//!
//! A fragment stands for one value and for all that follows from it: a link's probe, vendor and site, a cell's enb,
//! region and frequency, a device's vendor and model, a host's country. Fragments are ready as text, so a probe's record
//! of 2 KB is some twenty draws and copies. Beside every group of fields stands how many values there are.

use std::io::Write;

use super::fragments::Fragments;
use crate::rng::Rng;

pub(super) const SUBSCRIBERS: usize = 1_000_000;
pub(super) const CELLS: usize = 50_000;
const CELLS_OF_ENB: usize = 5;
const ENBS_OF_AREA: usize = 20;
const REGIONS: usize = 30;
const DEVICES: usize = 20_000;
const DEVICES_OF_MODEL: usize = 4;
const DEVICE_VENDORS: usize = 300;
const APPS: usize = 500;
pub(super) const HOSTS_OF_APP: usize = 200;
const COUNTRIES: usize = 200;
const NETWORKS: usize = 5000;
/// Number of subscriptions; each subscriber has one of them.
const SUBSCRIPTIONS: usize = 16_384;
const CAUSES: usize = 300;
const OUTCOMES: usize = 3000;

const VENDORS: [&str; 8] = ["Aurel", "Brisk", "Corvid", "Dunlin", "Egret", "Fulmar", "Garnet", "Heron"];
const INTERFACES: [&str; 8] = ["S1-MME", "S1-U", "S11", "S5", "Gn", "N2", "N4", "N11"];
const PROCEDURES: [(&str, &str); 12] = [
    ("attach", "control"),
    ("detach", "control"),
    ("service request", "control"),
    ("PDN connect", "control"),
    ("PDN disconnect", "control"),
    ("handover", "mobility"),
    ("path switch", "mobility"),
    ("tracking area update", "mobility"),
    ("paging", "mobility"),
    ("data session", "user"),
    ("voice call", "user"),
    ("SMS", "user"),
];
const CLOSES: [&str; 4] = ["normal", "timeout", "abort", "rollover"];
const SEGMENTS: [&str; 6] = ["consumer", "youth", "family", "business", "iot", "wholesale"];
const CONTRACTS: [&str; 3] = ["prepaid", "postpaid", "hybrid"];
const SYSTEMS: [&str; 5] = ["robo", "pome", "kai", "tux", "rtos"];
const DEVICE_TYPES: [&str; 5] = ["phone", "tablet", "modem", "router", "meter"];
const RATS: [&str; 4] = ["4G", "5G", "3G", "2G"];
const CELL_TYPES: [&str; 4] = ["macro", "micro", "pico", "femto"];
const PDN_TYPES: [&str; 3] = ["IPv4", "IPv6", "IPv4v6"];
const BEARERS: [&str; 2] = ["default", "dedicated"];
const PROTOCOLS: [&str; 6] = ["HTTP2", "QUIC", "HTTP", "RTP", "DNS", "MQTT"];
const CDNS: [&str; 7] = ["none", "edgy", "farol", "glint", "haven", "inlet", "jetty"];
const TLS: [&str; 4] = ["1.3", "1.2", "1.1", "none"];
const HTTP_CLASSES: [&str; 6] = ["2xx", "3xx", "4xx", "5xx", "1xx", "none"];
const FAILURES: [&str; 4] = ["failed", "rejected", "timeout", "dropped"];
const LAYERS: [&str; 5] = ["RRC", "S1AP", "NAS", "GTP", "Diameter"];
const STAGES: [&str; 6] = ["setup", "auth", "bearer", "transfer", "release", "handover"];
const MESSAGES: [&str; 12] = [
    "InitialUEMessage",
    "DownlinkNASTransport",
    "UplinkNASTransport",
    "InitialContextSetupRequest",
    "InitialContextSetupResponse",
    "UEContextReleaseCommand",
    "UEContextReleaseComplete",
    "CreateSessionRequest",
    "CreateSessionResponse",
    "ModifyBearerRequest",
    "Authentication-Information-Answer",
    "RRCConnectionReconfiguration",
];

/// Fields by what they follow from. Each fragment is members of one object, set apart by commas, without one at the ends.
#[derive(Debug)]
pub(super) struct Network {
    /// 256, of 64 probes: all of `probe`.
    pub(super) links: Fragments,
    /// All of `rec`.
    pub(super) procedures: Fragments,
    /// The end of `sub`, from behind the subscriber's hash on.
    pub(super) subscriptions: Fragments,
    /// 20,000: all of `dev`.
    pub(super) devices: Fragments,
    /// 50,000: all of `radio`.
    pub(super) cells: Fragments,
    /// `mme` and `sgw`, 16 each.
    pub(super) mobility: Fragments,
    /// `pgw` and `pcrf`, 16 and 8.
    pub(super) gateways: Fragments,
    /// 100.
    pub(super) apns: Fragments,
    /// `pdnType`, `qci`, `arp`, `bearer`.
    pub(super) bearers: Fragments,
    /// 500: `app`, `cat`, `proto`, `l4`, `video`.
    pub(super) apps: Fragments,
    /// 200 of each app: `host`, `cdn`, `country`, `asn`.
    pub(super) hosts: Fragments,
    /// `tls`, `httpClass`.
    pub(super) sessions: Fragments,
    /// All of `out`; the first is how it should be.
    pub(super) outcomes: Fragments,
    /// Lists of names of messages, which no query reads.
    pub(super) messages: Fragments,
    /// Nor for these: objects with undecoded parts of messages.
    pub(super) elements: Fragments,
}

/// A number for a value of a kind, always the same.
fn mix(kind: u64, value: usize) -> u64 {
    Rng::new(kind << 40 ^ value as u64).bits()
}

/// One of these that belongs to a value of a kind.
fn one_of(kind: u64, value: usize, of: &[&'static str]) -> &'static str {
    of[(mix(kind, value) % of.len() as u64) as usize]
}

/// Adds formatted text; writing to memory does not fail.
macro_rules! add {
    ($out:expr, $($text:tt)*) => {{
        let _ = write!($out, $($text)*);
    }};
}

/// The subscription of a subscriber.
#[inline]
pub(super) fn subscription_of(subscriber: usize) -> usize {
    (mix(1, subscriber) >> 32) as usize % SUBSCRIPTIONS
}

/// Adds the hash of a subscriber's number: 12 digits of base 16.
#[inline]
pub(super) fn push_hash(subscriber: usize, out: &mut Vec<u8>) {
    // Multiplying by an odd number takes no two numbers of 48 bits to the same.
    let mut bits = (subscriber as u64 + 1).wrapping_mul(0x9e37_79b9_7f4b) & ((1 << 48) - 1);
    for _ in 0..12 {
        out.push(b"0123456789abcdef"[(bits >> 44) as usize]);
        bits = bits << 4 & ((1 << 48) - 1);
    }
}

impl Network {
    pub(super) fn new() -> Network {
        Network {
            links: Fragments::new(256, link),
            procedures: Fragments::new(PROCEDURES.len() * CLOSES.len(), |number, out| {
                let (procedure, kind) = PROCEDURES[number / CLOSES.len()];
                let close = CLOSES[number % CLOSES.len()];
                add!(out, r#""type":"{kind}","procedure":"{procedure}","close":"{close}""#);
            }),
            subscriptions: Fragments::new(SUBSCRIPTIONS, subscription),
            devices: Fragments::new(DEVICES, device),
            cells: Fragments::new(CELLS, cell),
            mobility: Fragments::new(256, |number, out| {
                add!(out, r#""mme":"m{:02}","sgw":"s{:02}""#, number / 16, number % 16);
            }),
            gateways: Fragments::new(128, |number, out| {
                add!(out, r#","pgw":"p{:02}","pcrf":"r{}""#, number / 8, number % 8);
            }),
            apns: Fragments::new(100, |number, out| add!(out, r#","apn":"apn{number:02}.net""#)),
            bearers: Fragments::new(PDN_TYPES.len() * 9 * 15 * BEARERS.len(), |number, out| {
                let (bearer, number) = (BEARERS[number % BEARERS.len()], number / BEARERS.len());
                let (arp, number) = (1 + number % 15, number / 15);
                let (qci, pdn) = (1 + number % 9, PDN_TYPES[number / 9]);
                add!(out, r#","pdnType":"{pdn}","qci":{qci},"arp":{arp},"bearer":"{bearer}""#);
            }),
            apps: Fragments::new(APPS, |app, out| {
                let (category, protocol) = (mix(2, app) % 30, one_of(3, app, &PROTOCOLS));
                let l4 = if ["QUIC", "RTP", "DNS"].contains(&protocol) { "udp" } else { "tcp" };
                let video = mix(4, app).is_multiple_of(4);
                add!(
                    out,
                    r#""app":"app{app}","cat":"cat{category}","proto":"{protocol}","l4":"{l4}","video":{video}"#
                );
            }),
            hosts: Fragments::new(APPS * HOSTS_OF_APP, |host, out| {
                let (cdn, asn) = (one_of(5, host, &CDNS), mix(6, host) as usize % NETWORKS);
                let country = country(asn % COUNTRIES);
                let asn = 64_512 + asn;
                add!(out, r#","host":"h{host}.test","cdn":"{cdn}","country":"{country}","asn":{asn}"#);
            }),
            sessions: Fragments::new(TLS.len() * HTTP_CLASSES.len(), |number, out| {
                let (tls, class) =
                    (TLS[number / HTTP_CLASSES.len()], HTTP_CLASSES[number % HTTP_CLASSES.len()]);
                add!(out, r#","tls":"{tls}","httpClass":"{class}""#);
            }),
            outcomes: Fragments::new(OUTCOMES, outcome),
            messages: Fragments::new(64, message_names),
            elements: Fragments::new(512, element),
        }
    }
}

fn link(link: usize, out: &mut Vec<u8>) {
    let probe = link / 4;
    let (vendor, site) = (one_of(7, probe, &VENDORS), probe % 40);
    let (major, minor) = (5 + mix(8, probe) % 3, mix(9, probe) % 6);
    let interface = INTERFACES[link % INTERFACES.len()];
    add!(
        out,
        r#""id":"P{probe}","vendor":"{vendor}","sw":"{major}.{minor}","site":"S{site}","link":"L{link}","iface":"{interface}""#
    );
}

/// The end of a `sub`, whose text is still open.
fn subscription(number: usize, out: &mut Vec<u8>) {
    let (segment, contract) = (one_of(10, number, &SEGMENTS), one_of(11, number, &CONTRACTS));
    let plan = mix(12, number) % 60;
    // A roaming subscriber is from any network; three networks have one country's code.
    let roaming = mix(13, number) % 100 < 15;
    let network = if roaming { mix(14, number) % 600 } else { mix(14, number) % 3 };
    let country = 201 + network / 3;
    add!(
        out,
        r#"","segment":"{segment}","plan":"T{plan}","contract":"{contract}","homeMcc":{country},"homeMnc":{network},"roaming":{roaming}"#
    );
}

fn device(device: usize, out: &mut Vec<u8>) {
    let model = device / DEVICES_OF_MODEL;
    let vendor = model % DEVICE_VENDORS;
    let system = (mix(15, vendor) % SYSTEMS.len() as u64) as usize;
    let version = mix(16, model) as usize % 40;
    let (name, kind) = (SYSTEMS[system], one_of(17, model, &DEVICE_TYPES));
    let (tac, major, minor) = (35_000_000 + device * 7, version / 4 + 1, version % 4);
    let (volte, category) = (mix(18, model) % 10 < 7, 1 + mix(19, model) % 20);
    add!(
        out,
        r#""tac":{tac},"vendor":"V{vendor}","model":"M{model}","os":"{name}","osVer":"{name} {major}.{minor}","type":"{kind}","volte":{volte},"cat":{category}"#
    );
}

fn cell(cell: usize, out: &mut Vec<u8>) {
    let enb = cell / CELLS_OF_ENB;
    let area = enb / ENBS_OF_AREA;
    let region = area % REGIONS;
    let channel = mix(20, cell) as usize % 60;
    let (rat, kind) = (one_of(21, channel, &RATS), one_of(22, cell, &CELL_TYPES));
    let (vendor, band, sector) = (one_of(23, area, &VENDORS[..4]), 1 + channel / 6, cell % 3);
    let (country, network, frequency) = (201, area % 3, 1000 + channel * 25);
    add!(
        out,
        r#""rat":"{rat}","mcc":{country},"mnc":{network},"tac":{area},"enb":{enb},"cell":{cell},"sector":{sector},"band":{band},"earfcn":{frequency},"cellType":"{kind}","vendor":"{vendor}","region":"R{region}""#
    );
}

/// A cause says its status and its layer.
fn outcome(number: usize, out: &mut Vec<u8>) {
    let cause = number % CAUSES;
    let status = if cause == 0 { "ok" } else { one_of(24, cause, &FAILURES) };
    let (layer, stage) = (one_of(25, cause, &LAYERS), one_of(26, number, &STAGES));
    let (sub, retry) = (mix(27, number) % 100, mix(28, number).is_multiple_of(4));
    add!(
        out,
        r#""status":"{status}","layer":"{layer}","cause":{cause},"sub":{sub},"stage":"{stage}","retry":{retry}"#
    );
}

/// Two letters.
fn country(number: usize) -> String {
    let letter = |number: usize| char::from(b'A' + (number % 26) as u8);
    format!("{}{}", letter(number / 26), letter(number))
}

fn message_names(number: usize, out: &mut Vec<u8>) {
    let mut rng = Rng::new(number as u64 ^ 29 << 40);
    out.push(b'[');
    for place in 0..3 + number % 3 {
        let name = MESSAGES[rng.below(MESSAGES.len())];
        // Some have what a reader must not take for the end of a text.
        let quoted = if rng.below(8) == 0 { r#" \"ext\""# } else { "" };
        let comma = if place > 0 { "," } else { "" };
        add!(out, r#"{comma}"{name}{quoted}""#);
    }
    out.push(b']');
}

fn element(number: usize, out: &mut Vec<u8>) {
    let mut rng = Rng::new(number as u64 ^ 30 << 40);
    let (id, criticality) = (rng.below(320), ["reject", "ignore", "notify"][number % 3]);
    add!(out, r#"{{"id":{id},"crit":"{criticality}","path":[{},{{"n":{}}}],"val":""#, number % 7, number % 5);
    for _ in 0..10 + rng.below(9) {
        add!(out, "{:016x}", rng.bits());
    }
    out.extend_from_slice(b"\"}");
}
