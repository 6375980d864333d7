//! Events that are made of requests.

use std::sync::Arc;

use bumpalo::Bump;
use swiftwater_event::{Step, StreamName, Value, event_fields, write_json};
use swiftwater_lang::ddl::{CreateStream, OtherFields};
use swiftwater_live::expr::{Program, Scratch};

use super::{
    Endpoint, EndpointError, EndpointInput, EndpointLimits,
    compile::unfit,
    input::{OtherFields as Others, Said, checked, first_other, read},
    select::{ShownColumn, write_row},
    together::Together,
};
use crate::EngineError;

/// What a request makes.
#[derive(Debug)]
pub(super) struct IntoPlan {
    pub(super) stream: StreamName,
    pub(super) event: EventShape,
    pub(super) returning: Option<Vec<ShownColumn>>,
    pub(super) together: Arc<Together>,
}

/// The fields of an event, or of an object within.
#[derive(Debug)]
pub(super) struct EventShape(Vec<Member>);

#[derive(Debug)]
struct Member {
    key: Box<str>,
    /// The key as JSON, with the colon after it.
    json_key: Box<[u8]>,
    value: Part,
}

#[derive(Debug)]
enum Part {
    Value { name: Box<str>, program: Program },
    Object(EventShape),
}

impl EventShape {
    /// Of values by name: a column of the stream lies where that is declared to, anything else is a field of its name.
    pub(super) fn new(
        members: Vec<(Box<str>, Program)>,
        stream: &CreateStream,
    ) -> Result<EventShape, EngineError> {
        let mut shape = EventShape(Vec::new());
        for (name, program) in members {
            let column = stream.columns.iter().find(|column| column.name == name);
            let path = match column {
                Some(column) => column.event_path(),
                None => swiftwater_event::Path::field(name.clone()),
            };
            shape.put(path.steps(), Part::Value { name, program })?;
        }
        Ok(shape)
    }

    fn put(&mut self, steps: &[Step], part: Part) -> Result<(), EngineError> {
        let name = part.first().to_owned();
        let (key, rest) = match steps {
            [Step::Key(key), rest @ ..] => (key, rest),
            _ => {
                let message = format!("column `{name}` lies within a list, which an endpoint cannot make");
                return Err(unfit(
                    message,
                    "Leave the column out, or take a JSON column for the whole list.",
                ));
            }
        };
        let known = self.0.iter_mut().find(|member| member.key == *key);
        match (known, rest) {
            (None, []) => self.0.push(Member::new(key, part)),
            (None, rest) => {
                let mut within = EventShape(Vec::new());
                within.put(rest, part)?;
                self.0.push(Member::new(key, Part::Object(within)));
            }
            (Some(Member { value: Part::Object(within), .. }), [_, ..]) => within.put(rest, part)?,
            (Some(other), _) => {
                let message =
                    format!("columns `{}` and `{name}` lie at one place of the event", other.value.first());
                return Err(unfit(message, "Name one of them only."));
            }
        }
        Ok(())
    }

    /// Writes the fields that have a value, and those of `others` that lie elsewhere.
    fn write<'a>(
        &self,
        said: &Said<'a>,
        (scratch, arena): (&mut Scratch, &'a Bump),
        others: &Others<'a>,
        out: &mut Vec<u8>,
    ) {
        out.push(b'{');
        let empty = out.len();
        let separate = |out: &mut Vec<u8>| {
            if out.len() > empty {
                out.push(b',');
            }
        };
        let now = match said.slots.last() {
            Some(Value::Long(now)) => *now,
            _ => 0,
        };
        for member in &self.0 {
            match &member.value {
                Part::Value { program, .. } => {
                    let (value, _) = program.value(said.slots, now, scratch, arena);
                    if matches!(value, Value::Null | Value::Error) {
                        continue;
                    }
                    separate(out);
                    out.extend_from_slice(&member.json_key);
                    write_json(&value, out);
                }
                Part::Object(within) => {
                    separate(out);
                    out.extend_from_slice(&member.json_key);
                    let beside = others.iter().find(|(name, _)| **name == *member.key);
                    let beside = beside.map(|(_, json)| event_fields(json, arena)).unwrap_or_default();
                    within.write(said, (scratch, arena), &beside, out);
                }
            }
        }
        for (name, json) in others {
            if self.0.iter().any(|member| *member.key == **name) {
                continue;
            }
            separate(out);
            write_json(&Value::String(name), out);
            out.push(b':');
            out.extend_from_slice(json.as_bytes());
        }
        out.push(b'}');
    }
}

impl Member {
    fn new(key: &str, value: Part) -> Member {
        let mut json_key = Vec::new();
        write_json(&Value::String(key), &mut json_key);
        json_key.push(b':');
        Member { key: key.into(), json_key: json_key.into(), value }
    }
}

impl Part {
    /// The first column of it.
    fn first(&self) -> &str {
        match self {
            Part::Value { name, .. } => name,
            Part::Object(within) => within.0.first().map_or("", |member| member.value.first()),
        }
    }
}

/// The text of the event that a request makes, and what is answered when it was taken.
pub(super) fn event(
    endpoint: &Endpoint,
    plan: &IntoPlan,
    input: &EndpointInput<'_>,
    (now, limits): (swiftwater_event::Millis, &EndpointLimits),
    (scratch, arena): (&mut Scratch, &Bump),
) -> Result<(Vec<u8>, Option<Vec<u8>>), EndpointError> {
    let body = if endpoint.reads_body() { Some(checked("body", &input.body, limits)?) } else { None };
    // Events are UTF-8: that was checked.
    let text = body.as_ref().and_then(|body| std::str::from_utf8(body.event(0)).ok());
    let others = endpoint.other_fields();
    let (parameters, checks) = (&endpoint.parameters[..], &endpoint.checks[..]);
    let keeps_others = others != OtherFields::Ignore;
    let said = read(parameters, checks, (&input.texts, text), (now, keeps_others), (scratch, arena))?;
    if others == OtherFields::Refuse
        && let Some(path) = first_other(parameters, &said.others, arena)
    {
        return Err(EndpointError::refused(
            400,
            format!("the body has a field `{path}`, which is unknown here"),
        ));
    }
    let mut event = Vec::with_capacity(64 + text.map_or(0, str::len));
    plan.event.write(&said, (scratch, arena), &said.others, &mut event);
    let answer = plan.returning.as_ref().map(|columns| {
        let mut answer = Vec::new();
        write_row(columns, said.slots, now, (scratch, arena), &mut answer);
        answer.push(b'\n');
        answer
    });
    Ok((event, answer))
}
