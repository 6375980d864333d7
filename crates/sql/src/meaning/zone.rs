//! Resolves a time zone from its name in a statement, and converts local times in it.
//!
//! Names mean what they mean in PostgreSQL. Its abbreviations come first, with a fixed offset (`CET` is +01:00 in summer
//! too). Then follow the names of the IANA database, in any letter case. PostgreSQL reads every other name with an offset
//! by the rules of POSIX, in which `+02` and `UTC+2` are west of Greenwich. Everybody else reads them as east, so such
//! names are refused. An interval is always east.
//!
//! Limits: the rules of the database reach to the end of 2099; later times in a zone whose clocks change are an error.

use std::collections::HashMap;
use std::sync::OnceLock;

use chrono::{DateTime, MappedLocalTime, NaiveDateTime, Offset, TimeZone};
use chrono_tz::{TZ_VARIANTS, Tz};

use crate::SqlError;
use crate::error::state;

/// PostgreSQL's abbreviations of a fixed offset, in minutes east (its file `timezonesets/Default`).
const ABBREVIATIONS: &str = "\
    acdt 630, acsst 630, acst 570, act -300, acwst 525, adt -180, aedt 660, aesst 660, aest 600, aft 270, \
    akdt -480, akst -540, almst 420, almt 360, amt -240, ast -240, awsst 540, awst 480, azost 0, azot -60, \
    bdst 120, bdt 360, bnt 480, bort 480, bot -240, bra -180, brst -120, brt -180, bst 60, btt 360, cadt \
    630, cast 570, cct 480, cdt -300, cest 120, cet 60, cetdst 120, chadt 825, chast 765, chut 600, clst \
    -180, cot -300, cst -360, cxt 420, ddut 600, eat 180, edt -240, eest 180, eet 120, eetdst 180, egst 0, \
    egt -60, est -300, fet 180, fjst 780, fjt 720, fnst -60, fnt -120, galt -360, gamt -540, gft -180, gilt \
    720, gmt 0, hkt 480, hst -600, ict 420, idt 180, irt 210, ist 120, jayt 540, jst 540, kdt 600, kgst 360, \
    kst 540, lhst 630, ligt 600, mart -570, mdt -360, mest 120, mesz 120, met 60, metdst 120, mez 60, mht \
    720, mmt 390, mpt 600, msd 240, mst -420, must 300, mut 240, mvt 300, myt 480, ndt -150, nft -210, npt \
    345, nst -210, nzdt 780, nzst 720, nzt 720, pdt -420, pet -300, pgt 600, pht 480, pkst 360, pkt 300, \
    pmdt -120, pmst -180, pont 660, pst -480, pwt 540, pyst -180, ret 240, sadt 630, sast 120, sct 240, taht \
    -600, tft 300, tjt 300, tot 780, trut 600, tvt 720, uct 0, ulast 540, ut 0, utc 0, uyst -120, uyt -180, \
    uzst 360, uzt 300, vut 660, wadt 480, wakt 720, wast 420, wat 60, wdt 540, wet 0, wetdst 60, wft 720, \
    wgst -120, wgt -180, xjt 360, yapt 600, yekst 360, z 0, zulu 0";
/// End of the rules in the database: 2100-01-01, in seconds.
const RULES_END: i64 = 4_102_444_800;
/// Half a year before the end, where the clocks show whether they still change.
const HALF_A_YEAR: i64 = 182 * 86_400;
const DAY: i64 = 86_400;
/// The largest offset that an interval may have, in seconds. PostgreSQL has the same.
const OFFSET_MAX: i64 = 167 * 3600 + 59 * 60 + 59;

/// A time zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Zone {
    Named(Tz),
    /// Seconds east of Greenwich.
    Fixed(i64),
}

impl Zone {
    /// The zone of that name.
    pub(super) fn named(text: &str) -> Result<Zone, SqlError> {
        let name = text.trim().to_ascii_lowercase();
        if let Some(zone) = known().get(name.as_str()) {
            return Ok(*zone);
        }
        let digits = |byte: u8| byte.is_ascii_digit();
        let is_zero = name.starts_with(['+', '-'])
            && name[1..].bytes().all(|byte| byte == b'0' || byte == b':')
            && name.bytes().any(digits);
        if is_zero {
            return Ok(Zone::Fixed(0));
        }
        let error = match name.bytes().any(digits) && name.contains(['+', '-']) {
            true => SqlError::invalid(format!("time zone `{text}` is ambiguous")).with_hint(
                "PostgreSQL and POSIX count such offsets to the west, ISO 8601 to the east. Write an interval, which counts to the \
                 east: AT TIME ZONE INTERVAL '2 hours'; or a name: 'Europe/Berlin'.",
            ),
            false => SqlError::invalid(format!("no time zone `{text}`"))
                .with_hint("Write a name of the IANA database, such as 'Europe/Berlin' or 'UTC', or an interval east of UTC."),
        };
        Err(error.with_state(state::INVALID_PARAMETER))
    }

    /// The zone at a fixed distance.
    pub(super) fn at_interval(months: i32, days: i32, nanos: i64) -> Result<Zone, SqlError> {
        let seconds = nanos.div_euclid(1_000_000_000);
        if months != 0 || days != 0 || seconds.abs() > OFFSET_MAX {
            return Err(SqlError::invalid("a time zone is an interval of hours, minutes and seconds")
                .with_state(state::INVALID_PARAMETER)
                .with_hint("Write INTERVAL '2 hours', or INTERVAL '-5 hours 30 minutes'."));
        }
        Ok(Zone::Fixed(seconds))
    }

    /// Seconds that the zone's clocks are ahead of UTC, `utc` seconds after 1970.
    pub(super) fn offset_at(self, utc: i64) -> Result<i64, SqlError> {
        match self {
            Zone::Fixed(seconds) => Ok(seconds),
            Zone::Named(zone) => {
                self.check_rules(zone, utc)?;
                Ok(offset(zone, at(utc)?))
            }
        }
    }

    /// Seconds that the zone's clocks are ahead of UTC when they show `local`. A time that they never show, or show twice, is
    /// read as PostgreSQL reads it: with the offset from before the clocks went forward, from after they went back.
    pub(super) fn offset_of_local(self, local: i64) -> Result<i64, SqlError> {
        let zone = match self {
            Zone::Fixed(seconds) => return Ok(seconds),
            Zone::Named(zone) => zone,
        };
        self.check_rules(zone, local)?;
        Ok(match zone.offset_from_local_datetime(&at(local)?) {
            MappedLocalTime::Single(only) => seconds(&only),
            MappedLocalTime::Ambiguous(first, second) => seconds(&first).min(seconds(&second)),
            MappedLocalTime::None => offset(zone, at(local - DAY)?),
        })
    }

    fn check_rules(self, zone: Tz, seconds: i64) -> Result<(), SqlError> {
        if seconds < RULES_END - DAY {
            return Ok(());
        }
        let (winter, summer) = (at(RULES_END - 2 * DAY)?, at(RULES_END - HALF_A_YEAR)?);
        match offset(zone, winter) == offset(zone, summer) {
            true => Ok(()),
            false => {
                Err(SqlError::invalid(format!("the clock changes of `{zone}` after 2099 are not known"))
                    .with_state(state::OUT_OF_RANGE)
                    .with_hint("Write an interval as the time zone: AT TIME ZONE INTERVAL '1 hour'."))
            }
        }
    }
}

/// Returns true if a time zone is UTC; an error if no zone has that name.
pub fn is_utc(name: &str) -> Result<bool, SqlError> {
    let always: [Tz; 4] = [Tz::UTC, Tz::Etc__UTC, Tz::GMT, Tz::Etc__GMT];
    Ok(match Zone::named(name)? {
        Zone::Fixed(seconds) => seconds == 0,
        Zone::Named(zone) => always.contains(&zone),
    })
}

fn known() -> &'static HashMap<String, Zone> {
    static KNOWN: OnceLock<HashMap<String, Zone>> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let names = TZ_VARIANTS.iter().map(|zone| (zone.name().to_ascii_lowercase(), Zone::Named(*zone)));
        let abbreviations = ABBREVIATIONS.split(", ").filter_map(|entry| {
            let (name, minutes) = entry.trim().split_once(' ')?;
            Some((name.to_owned(), Zone::Fixed(minutes.parse::<i64>().ok()? * 60)))
        });
        names.chain(abbreviations).collect()
    })
}

fn at(seconds: i64) -> Result<NaiveDateTime, SqlError> {
    let time = DateTime::from_timestamp(seconds, 0).map(|time| time.naive_utc());
    time.ok_or_else(|| {
        SqlError::invalid("a time is too far away for a time zone").with_state(state::OUT_OF_RANGE)
    })
}

fn offset(zone: Tz, utc: NaiveDateTime) -> i64 {
    seconds(&zone.offset_from_utc_datetime(&utc))
}

fn seconds(offset: &impl Offset) -> i64 {
    i64::from(offset.fix().local_minus_utc())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_abbreviation_is_read() {
        let count = ABBREVIATIONS.split(',').count();
        let fixed = known().values().filter(|zone| matches!(zone, Zone::Fixed(_))).count();
        assert_eq!(count, fixed);
        assert_eq!(Zone::named("cet").unwrap(), Zone::Fixed(3600));
        assert_eq!(Zone::named("Z").unwrap(), Zone::Fixed(0));
        assert_eq!(Zone::named("+00:00").unwrap(), Zone::Fixed(0));
    }

    #[test]
    fn what_two_standards_read_differently_is_refused() {
        for name in ["+02", "-2", "+02:00", "UTC+2", "GMT-3", "<+02>-2", "EST+5EDT"] {
            let error = Zone::named(name).unwrap_err();
            assert!(error.to_string().contains("ambiguous"), "{name}: {error}");
        }
        for name in ["Nowhere/City", "", "berlin", "5", "+", "Europe/Berlin\u{0}"] {
            let error = Zone::named(name).unwrap_err();
            assert!(error.to_string().starts_with("no time zone"), "{name}: {error}");
        }
    }
}
