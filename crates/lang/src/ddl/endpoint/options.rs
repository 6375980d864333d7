//! The options of an endpoint: `WITH (name = value, …)`.

use crate::ddl::{
    Ack,
    options::{Value, named},
};

/// The form of error responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ErrorForm {
    /// Problem details (RFC 9457).
    #[default]
    Problem,
    /// `{"message": "…"}`.
    Message,
}

/// The form of rows in responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Answer {
    /// One row, as an object.
    Object,
    /// All rows, as a list of objects.
    Rows,
}

/// The treatment of the body's fields that are no parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OtherFields {
    /// They are fields of the event, unless a SELECT determines its fields.
    #[default]
    Keep,
    /// They are ignored.
    Ignore,
    /// The request is refused.
    Refuse,
}

/// The options that are set; `None` for those that are not.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct EndpointOptions {
    /// The status of an answer of success.
    pub status: Option<u16>,
    /// The acknowledgement of POST.
    pub ack: Option<Ack>,
    /// The form of error responses.
    pub errors: Option<ErrorForm>,
    /// The form of rows in the responses of GET.
    pub answer: Option<Answer>,
    /// The treatment of other fields by POST.
    pub other_fields: Option<OtherFields>,
}

/// The options by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EndpointOption {
    /// `status = 201`.
    Status,
    /// `ack = memory|disk`.
    Ack,
    /// `errors = problem|message`.
    Errors,
    /// `answer = object|rows`.
    Answer,
    /// `other_fields = keep|ignore|refuse`.
    OtherFields,
}

impl EndpointOption {
    /// All of them, in the order in which they are printed.
    pub const ALL: [EndpointOption; 5] = [
        EndpointOption::Status,
        EndpointOption::Ack,
        EndpointOption::Errors,
        EndpointOption::Answer,
        EndpointOption::OtherFields,
    ];

    /// The option's name.
    pub fn text(self) -> &'static str {
        match self {
            EndpointOption::Status => "status",
            EndpointOption::Ack => "ack",
            EndpointOption::Errors => "errors",
            EndpointOption::Answer => "answer",
            EndpointOption::OtherFields => "other_fields",
        }
    }

    /// The option of a name, in any letter case; the error is a hint.
    pub(crate) fn of(name: &str) -> Result<EndpointOption, String> {
        named(&Self::ALL, Self::text, name)
    }
}

impl EndpointOptions {
    /// Sets one; the error has the allowed values.
    pub(crate) fn set(&mut self, option: EndpointOption, value: &Value) -> Result<(), String> {
        let text = match value {
            Value::Text(text) => text.trim().to_ascii_lowercase(),
            _ => String::new(),
        };
        match (option, text.as_str()) {
            (EndpointOption::Status, _) => match value {
                Value::Number(status @ 200..=299) => self.status = Some(*status as u16),
                _ => return Err("`status` must be a number from 200 to 299".to_owned()),
            },
            (EndpointOption::Ack, "memory") => self.ack = Some(Ack::Memory),
            (EndpointOption::Ack, "disk") => self.ack = Some(Ack::Disk),
            (EndpointOption::Ack, _) => return Err("`ack` must be memory or disk".to_owned()),
            (EndpointOption::Errors, "problem") => self.errors = Some(ErrorForm::Problem),
            (EndpointOption::Errors, "message") => self.errors = Some(ErrorForm::Message),
            (EndpointOption::Errors, _) => return Err("`errors` must be problem or message".to_owned()),
            (EndpointOption::Answer, "object") => self.answer = Some(Answer::Object),
            (EndpointOption::Answer, "rows") => self.answer = Some(Answer::Rows),
            (EndpointOption::Answer, _) => return Err("`answer` must be object or rows".to_owned()),
            (EndpointOption::OtherFields, "keep") => self.other_fields = Some(OtherFields::Keep),
            (EndpointOption::OtherFields, "ignore") => self.other_fields = Some(OtherFields::Ignore),
            (EndpointOption::OtherFields, "refuse") => self.other_fields = Some(OtherFields::Refuse),
            (EndpointOption::OtherFields, _) => {
                return Err("`other_fields` must be keep, ignore or refuse".to_owned());
            }
        }
        Ok(())
    }

    /// The options that are set, with their values as written.
    pub fn settings(&self) -> impl Iterator<Item = (EndpointOption, String)> + '_ {
        EndpointOption::ALL.into_iter().filter_map(|option| {
            let value = match option {
                EndpointOption::Status => self.status?.to_string(),
                EndpointOption::Ack => match self.ack? {
                    Ack::Disk => "disk".to_owned(),
                    Ack::Memory | Ack::None => "memory".to_owned(),
                },
                EndpointOption::Errors => match self.errors? {
                    ErrorForm::Problem => "problem".to_owned(),
                    ErrorForm::Message => "message".to_owned(),
                },
                EndpointOption::Answer => match self.answer? {
                    Answer::Object => "object".to_owned(),
                    Answer::Rows => "rows".to_owned(),
                },
                EndpointOption::OtherFields => match self.other_fields? {
                    OtherFields::Keep => "keep".to_owned(),
                    OtherFields::Ignore => "ignore".to_owned(),
                    OtherFields::Refuse => "refuse".to_owned(),
                },
            };
            Some((option, value))
        })
    }
}
