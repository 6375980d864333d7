//! The structure of the events that an endpoint builds from requests.

use std::sync::Arc;

use bumpalo::Bump;
use swiftwater_event::{Step, StreamName, Value, event_fields, write_json};
use swiftwater_lang::ddl::CreateStream;
use swiftwater_live::expr::{Program, Scratch};

use super::{
    EndpointError,
    group_commit::GroupCommit,
    input::{OtherFields as Others, RequestValues},
    select::ShownColumn,
    unfit,
};
use crate::EngineError;

/// The event that a request makes.
#[derive(Debug)]
pub(super) struct IntoPlan {
    pub(super) stream: StreamName,
    pub(super) event: EventShape,
    pub(super) returning: Option<Vec<ShownColumn>>,
    pub(super) together: Arc<GroupCommit>,
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
    /// The shape for values by name: a column of the stream is at its declared path, any other value is a field of its
    /// name.
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
                let message = format!("column `{name}` is inside a list, which an endpoint cannot create");
                return Err(unfit(message, "Leave the column out, or use a JSON column for the whole list."));
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
                    format!("columns `{}` and `{name}` have the same path in the event", other.value.first());
                return Err(unfit(message, "Name only one of them."));
            }
        }
        Ok(())
    }

    /// Writes the fields that have a value, and the other fields of `others`; returns true if there are any. An object that
    /// would have none is left out. A field of `others` that nothing can replace is not lost: it conflicts.
    pub(super) fn write<'a>(
        &self,
        said: &RequestValues<'a>,
        (scratch, arena): (&mut Scratch, &'a Bump),
        others: &Others<'a>,
        out: &mut Vec<u8>,
    ) -> Result<bool, BodyConflict> {
        out.push(b'{');
        let empty = out.len();
        let now = match said.slots.last() {
            Some(Value::Long(now)) => *now,
            _ => 0,
        };
        for member in &self.0 {
            match &member.value {
                Part::Value { name, program } => {
                    let (value, _) = program.value(said.slots, now, scratch, arena);
                    if matches!(value, Value::Null | Value::Error) {
                        if member.find_sent(others).is_some() {
                            let rest = format!("at the path of `{name}`, which is missing or null");
                            return Err(BodyConflict { path: member.key.to_string(), rest });
                        }
                        continue;
                    }
                    separate(empty, out);
                    out.extend_from_slice(&member.json_key);
                    write_json(&value, out);
                }
                Part::Object(within) => {
                    let beside = member.read_sent_fields(others, arena)?;
                    let before = out.len();
                    separate(empty, out);
                    out.extend_from_slice(&member.json_key);
                    let has_any = within
                        .write(said, (scratch, arena), &beside, out)
                        .map_err(|clash| clash.within(&member.key))?;
                    if !has_any {
                        out.truncate(before);
                    }
                }
            }
        }
        self.write_others(others, empty, out);
        let has_any = out.len() > empty;
        out.push(b'}');
        Ok(has_any)
    }

    /// Writes those of `others` that lie beside the members.
    fn write_others(&self, others: &Others<'_>, empty: usize, out: &mut Vec<u8>) {
        for (name, json) in others {
            if self.0.iter().any(|member| *member.key == **name) {
                continue;
            }
            separate(empty, out);
            write_json(&Value::String(name), out);
            out.push(b':');
            out.extend_from_slice(json.as_bytes());
        }
    }
}

/// Writes the comma before a field of an object, unless it is the first: then the output ends at `empty`.
fn separate(empty: usize, out: &mut Vec<u8>) {
    if out.len() > empty {
        out.push(b',');
    }
}

/// A field of the body that has the place of what the event has there.
#[derive(Debug)]
pub(super) struct BodyConflict {
    path: String,
    /// The text that follows its path.
    rest: String,
}

impl BodyConflict {
    fn within(self, key: &str) -> BodyConflict {
        BodyConflict { path: format!("{key}.{}", self.path), ..self }
    }

    pub(super) fn refusal(self) -> EndpointError {
        EndpointError::refused(400, format!("the body has a field `{}` {}", self.path, self.rest))
    }
}

impl Member {
    fn new(key: &str, value: Part) -> Member {
        let mut json_key = Vec::new();
        write_json(&Value::String(key), &mut json_key);
        json_key.push(b':');
        Member { key: key.into(), json_key: json_key.into(), value }
    }

    /// The JSON that the body has in the place of this member; none where that is missing or null.
    fn find_sent<'a>(&self, others: &Others<'a>) -> Option<&'a str> {
        let (_, json) = others.iter().find(|(name, _)| **name == *self.key)?;
        Some(*json).filter(|json| *json != "null")
    }

    /// The fields of the object that the body has in the place of this member, which is an object, too.
    fn read_sent_fields<'a>(&self, others: &Others<'a>, arena: &'a Bump) -> Result<Others<'a>, BodyConflict> {
        match self.find_sent(others) {
            Some(json) if json.starts_with('{') => Ok(event_fields(json, arena)),
            Some(_) => {
                let rest = format!("that is not an object, and `{}` is inside it", self.value.first());
                Err(BodyConflict { path: self.key.to_string(), rest })
            }
            None => Ok(Vec::new()),
        }
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
