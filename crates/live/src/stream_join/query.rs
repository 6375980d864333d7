//! A compiled join: the key, the time and the values of an event, and the output of a pair.

use std::borrow::Cow;

use bumpalo::Bump;
use swiftwater_event::{DecodePlan, Decoder, EventBatch, Millis, Value, WantId, write_json};
use swiftwater_lang::{
    Dialect,
    plan::{Expr, JoinPlan},
};

use super::step::{JoinPair, JoinTimeBounds, SIDES};
use crate::{
    expr::{
        CompileError, EvalCounts, Program, Rows, Scratch, Wants, encode_ordered_value, parse_rfc3339_micros,
    },
    operate::{InvalidState, decode_value, encode_value},
};

/// A join, compiled: immutable.
#[derive(Debug)]
pub struct JoinQuery {
    sides: [Side; SIDES],
    apart: JoinTimeBounds,
    /// Maximum distance of the time of each side's events ahead of their arrival; none: no limit.
    max_ahead_ms: [Option<u64>; SIDES],
    /// Values of the left side, then of the right one.
    values: [usize; SIDES],
    filter: Option<Program>,
    columns: Vec<(Box<[u8]>, Program)>,
}

#[derive(Debug)]
struct Side {
    wants: DecodePlan,
    bindings: Vec<WantId>,
    time: Program,
    keys: Vec<Program>,
    filter: Option<Program>,
    values: Vec<Program>,
}

/// The parts of an event that a join reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinEvent<'e> {
    /// Its time, in microseconds since 1970.
    pub time: Option<i64>,
    /// Its arrival, in milliseconds.
    pub arrival: Millis,
    /// True if its time is further ahead of its arrival than its stream allows: then it joins nothing and moves no watermark.
    pub is_ahead: bool,
    /// The join key; none if the event joins nothing.
    pub key: Option<Cow<'e, [u8]>>,
    /// Its offset.
    pub number: u64,
    /// The values for pairs.
    pub values: &'e [u8],
}

/// The furthest times from 1970, as everywhere: some 270,000 years.
const FURTHEST: i64 = 8_640_000_000_000_000_000;

/// Bytes of a key, at most; an event with a longer one joins nothing. An event is persisted under its key and some 30 bytes
/// more, and stores limit the length of keys.
const KEY_BYTES_MAX: usize = 59_000;

impl JoinQuery {
    /// Compiles a plan.
    pub fn new(plan: &JoinPlan) -> Result<JoinQuery, CompileError> {
        let side = |place: usize| {
            let (side, mut wants) = (&plan.sides[place], Wants::new());
            let mut program = |expr: &Expr| Program::compile(expr, Dialect::Native, &mut wants);
            let time = program(&side.time)?;
            let keys = side.keys.iter().map(&mut program).collect::<Result<_, _>>()?;
            let filter = side.filter.as_ref().map(&mut program).transpose()?;
            let values = side.values.iter().map(&mut program).collect::<Result<_, _>>()?;
            let bindings = (0..wants.as_slice().len() as u32).map(WantId).collect();
            let wants = DecodePlan::new(wants.as_slice().iter().cloned());
            Ok(Side { wants, bindings, time, keys, filter, values })
        };
        let mut wants = Wants::new();
        let mut program = |expr: &Expr| Program::compile(expr, Dialect::Native, &mut wants);
        let column = |column: &swiftwater_lang::plan::OutputColumn| {
            let mut name = Vec::new();
            write_json(&Value::String(&column.name), &mut name);
            name.push(b':');
            Ok((name.into(), program(&column.expr)?))
        };
        let columns = plan.columns.iter().map(column).collect::<Result<_, _>>()?;
        let micros = |ms: i64| ms.saturating_mul(1000);
        let lateness = |place: usize| i64::try_from(plan.sides[place].lateness_ms).map_or(i64::MAX, micros);
        let max_ahead = |place: usize| plan.sides[place].max_ahead_ms;
        Ok(JoinQuery {
            sides: [side(0)?, side(1)?],
            apart: JoinTimeBounds {
                low: micros(plan.low_ms),
                high: micros(plan.high_ms),
                lateness: [lateness(0), lateness(1)],
                idle_after_ms: [plan.sides[0].idle_after_ms, plan.sides[1].idle_after_ms],
            },
            max_ahead_ms: [max_ahead(0), max_ahead(1)],
            values: [plan.sides[0].values.len(), plan.sides[1].values.len()],
            filter: plan.filter.as_ref().map(&mut program).transpose()?,
            columns,
        })
    }

    /// The bounds on the distance of a pair's events and on their lateness.
    pub fn time_bounds(&self) -> &JoinTimeBounds {
        &self.apart
    }

    /// The parts of a batch's events that it reads, as those of a side: one for each, in their order. Their values are in
    /// `arena`. An expression that fails is null.
    pub fn read<'a>(
        &self,
        side: usize,
        batch: &EventBatch,
        (decoder, scratch): (&mut Decoder, &mut Scratch),
        arena: &'a Bump,
    ) -> Vec<JoinEvent<'a>> {
        let max_ahead_ms = self.max_ahead_ms[side];
        let side = &self.sides[side];
        let (working, meta) = (Bump::new(), batch.meta());
        let decoded = decoder.decode(batch, &side.wants);
        let rows: Vec<u32> = (0..batch.len() as u32).collect();
        let over =
            |rows| Rows::Events { decoded: &decoded, bindings: &side.bindings, rows, now: meta.arrival };
        let mut counts = EvalCounts::default();
        let mut evaluated = |program: &Program| {
            let mut values = Vec::new();
            program.evaluate(&over(&rows), scratch, &working, &mut counts, &mut values);
            values
        };
        let times = evaluated(&side.time);
        let keys: Vec<Vec<Value<'_>>> = side.keys.iter().map(&mut evaluated).collect();
        let values: Vec<Vec<Value<'_>>> = side.values.iter().map(&mut evaluated).collect();
        let mut joins = vec![side.filter.is_none(); batch.len()];
        if let Some(filter) = &side.filter {
            let mut true_of = Vec::new();
            filter.filter_rows(&over(&rows), scratch, &working, &mut counts, &mut true_of);
            true_of.into_iter().for_each(|row| joins[row as usize] = true);
        }
        let mut bytes = Vec::new();
        let event = |row: usize| {
            let is_null = |values: &Vec<Value<'_>>| matches!(values[row], Value::Null | Value::Error);
            let mut key = None;
            bytes.clear();
            if joins[row] && !keys.iter().any(is_null) {
                keys.iter().for_each(|values| encode_ordered_value(&values[row], &mut bytes));
                if bytes.len() <= KEY_BYTES_MAX {
                    key = Some(Cow::Borrowed(&*arena.alloc_slice_copy(&bytes)));
                }
                bytes.clear();
            }
            if key.is_some() {
                values.iter().for_each(|values| encode_value(&values[row], &mut bytes));
            }
            let time = micros_of(&times[row]);
            let latest =
                max_ahead_ms.map(|most| meta.arrival.saturating_add_unsigned(most).saturating_mul(1000));
            let is_ahead = time.zip(latest).is_some_and(|(time, latest)| time > latest);
            JoinEvent {
                time,
                arrival: meta.arrival,
                is_ahead,
                key,
                number: meta.first.0 + row as u64,
                values: arena.alloc_slice_copy(&bytes),
            }
        };
        (0..batch.len()).map(event).collect()
    }

    /// Writes what pairs are made into: a JSON object a line, for those that the condition on pairs is true of. Returns their
    /// number. Fails where what was kept of an event cannot be read.
    pub fn write(
        &self,
        pairs: &[JoinPair<'_>],
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
    ) -> Result<u64, InvalidState> {
        let arena = Bump::new();
        let mut slots: Vec<Vec<Value<'_>>> = Vec::new();
        slots.resize_with(self.values[0] + self.values[1], || Vec::with_capacity(pairs.len()));
        for pair in pairs {
            let mut slot = 0;
            for (values, count) in pair.iter().zip(self.values) {
                let mut rest: &[u8] = values;
                for _ in 0..count {
                    slots[slot].push(decode_value(&mut rest, &arena)?);
                    slot += 1;
                }
            }
        }
        // NOW and its like are not allowed in a join.
        let now: Millis = 0;
        let rows = Rows::Slots { columns: &slots, count: pairs.len(), now };
        let mut counts = EvalCounts::default();
        let mut kept: Vec<u32> = Vec::new();
        match &self.filter {
            Some(filter) => filter.filter_rows(&rows, scratch, &arena, &mut counts, &mut kept),
            None => kept.extend(0..pairs.len() as u32),
        }
        let mut columns = Vec::with_capacity(self.columns.len());
        for (_, program) in &self.columns {
            let mut values = Vec::new();
            program.evaluate(&rows, scratch, &arena, &mut counts, &mut values);
            columns.push(values);
        }
        for &row in &kept {
            out.push(b'{');
            for (place, ((name, _), values)) in self.columns.iter().zip(&columns).enumerate() {
                if place > 0 {
                    out.push(b',');
                }
                out.extend_from_slice(name);
                write_json(&values[row as usize], out);
            }
            out.extend_from_slice(b"}\n");
        }
        Ok(kept.len() as u64)
    }
}

/// A time in microseconds: TIMESTAMP, RFC 3339 text, or a whole number of milliseconds.
fn micros_of(value: &Value<'_>) -> Option<i64> {
    let micros = match *value {
        Value::Timestamp(micros) => Some(micros),
        Value::Integer(ms) => i64::from(ms).checked_mul(1000),
        Value::Long(ms) => ms.checked_mul(1000),
        Value::String(text) => parse_rfc3339_micros(text),
        _ => None,
    };
    micros.filter(|micros| (-FURTHEST..=FURTHEST).contains(micros))
}
