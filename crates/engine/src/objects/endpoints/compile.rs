//! Compiles the declaration of an endpoint into the plan that answers its requests.

mod lookup;

use std::sync::Arc;

use swiftwater_catalog::{ObjectKind, kind::endpoint::EndpointEntry};
use swiftwater_event::{Step, Type};
use swiftwater_lang::{
    Dialect, QueryErrors,
    ddl::{
        Ack, Answer, CreateEndpoint, CreateStream, DefaultValue, EndpointAction, EndpointColumn, ErrorForm,
        OtherFields, ParameterPlace, Segment, endpoint::plan::parse_over_parameters,
    },
    plan::{Expr, Function},
};
use swiftwater_live::expr::{Program, Wants};

use super::{
    counts::EndpointCounts,
    input::{DefaultProgram, Parameter, ParameterCheck},
    select::{NoRow, SelectPlan, ShownColumn},
    shape::{EventShape, IntoPlan},
    unfit,
};
use crate::{EngineError, objects::views::View};
use lookup::compile_lookup;

/// An endpoint at work.
#[derive(Debug)]
pub struct Endpoint {
    /// Its number; never given to another.
    pub id: u32,
    /// Time of its creation.
    pub created: swiftwater_event::Millis,
    /// Its declaration.
    pub create: CreateEndpoint,
    /// The counts of its requests since the start.
    pub counts: EndpointCounts,
    /// The source of each parameter's value.
    pub places: Vec<EndpointPlace>,
    pub(super) parameters: Vec<Parameter>,
    pub(super) checks: Vec<ParameterCheck>,
    pub(super) action: Action,
}

/// The source of a parameter's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndpointPlace {
    /// The segment of the path with this number, from 0.
    Path(usize),
    /// The parameter of this name behind `?`.
    Query(Box<str>),
    /// The field at this path of names in the body.
    Body(Vec<Box<str>>),
}

#[derive(Debug)]
pub(super) enum Action {
    Into(IntoPlan),
    Select(Box<SelectPlan>),
    /// It cannot be had, though it could be when it was created.
    Broken(String),
}

impl Endpoint {
    /// The form of its errors.
    pub fn errors(&self) -> ErrorForm {
        self.create.options.errors.unwrap_or_default()
    }

    /// The status of an answer of success: 201 for an event that was taken, 200 for rows.
    pub fn status(&self) -> u16 {
        let usual = if self.create.stream().is_some() { 201 } else { 200 };
        self.create.options.status.unwrap_or(usual)
    }

    /// True if its requests' bodies are looked at.
    pub fn reads_body(&self) -> bool {
        let has_field = self.places.iter().any(|place| matches!(place, EndpointPlace::Body(_)));
        self.create.stream().is_some() && (has_field || self.other_fields() != OtherFields::Ignore)
    }

    /// Acknowledgement of an event, if declared.
    pub fn ack(&self) -> Option<crate::Ack> {
        self.create.options.ack.map(|ack| match ack {
            Ack::Disk => crate::Ack::Disk,
            Ack::Memory | Ack::None => crate::Ack::Memory,
        })
    }

    /// The treatment of the body's fields that are no parameters. An event that a SELECT makes has none of them.
    pub(super) fn other_fields(&self) -> OtherFields {
        let usual = match &self.create.action {
            EndpointAction::Into { event: None, .. } => OtherFields::Keep,
            _ => OtherFields::Ignore,
        };
        self.create.options.other_fields.unwrap_or(usual)
    }

    /// True if a request has more than the row of one key for an answer.
    pub fn answers_rows(&self) -> bool {
        match &self.action {
            Action::Select(plan) => plan.answer == Answer::Rows,
            Action::Into(_) | Action::Broken(_) => false,
        }
    }

    /// The types of the columns of an answer of success, in order, as far as they are known; none where there are no columns.
    pub fn answer_types(&self) -> Vec<Option<&Type>> {
        let columns = match &self.action {
            Action::Into(plan) => plan.returning.as_deref().unwrap_or_default(),
            Action::Select(plan) => &plan.columns,
            Action::Broken(_) => &[],
        };
        columns.iter().map(|column| column.ty.as_ref()).collect()
    }

    /// The same of what is answered where there is no row.
    pub fn otherwise_types(&self) -> Vec<Option<&Type>> {
        match &self.action {
            Action::Select(plan) => match &plan.otherwise {
                NoRow::Row(columns) => columns.iter().map(|column| column.ty.as_ref()).collect(),
                NoRow::Usual | NoRow::Status(_) => Vec::new(),
            },
            Action::Into(_) | Action::Broken(_) => Vec::new(),
        }
    }

    /// The reason why it cannot be used, if so.
    pub fn broken(&self) -> Option<&str> {
        match &self.action {
            Action::Broken(why) => Some(why),
            Action::Into(_) | Action::Select(_) => None,
        }
    }

    /// An endpoint that cannot be had.
    pub(super) fn new_broken(entry: &EndpointEntry, why: String) -> Endpoint {
        let create = entry.create.clone();
        let (parameters, checks) = (Vec::new(), Vec::new());
        Endpoint::with(entry, create, parameters, checks, Action::Broken(why))
    }

    /// Compiles an endpoint of a stream, or of a view, or of neither.
    pub(super) fn new(
        entry: &EndpointEntry,
        stream: Option<&CreateStream>,
        view: Option<&View>,
    ) -> Result<Endpoint, EngineError> {
        let create = entry.create.clone();
        let parameters = create.parameters.iter().map(|parameter| compiled_parameter(&create, parameter));
        let parameters: Vec<Parameter> = parameters.collect::<Result<_, _>>()?;
        let checks = compile_checks(&create)?;
        let action = match &create.action {
            EndpointAction::Into { stream: name, event, returning } => {
                let stream =
                    stream.ok_or_else(|| EngineError::not_found(ObjectKind::Stream, name.as_str()))?;
                if stream.source.is_some() {
                    return Err(EngineError::ReadsTopic(name.to_string()));
                }
                let event = compile_event(&create, stream, event.as_deref())?;
                Action::Into(IntoPlan {
                    stream: name.clone(),
                    event,
                    returning: returning.as_ref().map(|returning| shown(returning, &create)).transpose()?,
                    together: Arc::default(),
                })
            }
            EndpointAction::Select { columns, source: None, .. } => Action::Select(Box::new(SelectPlan {
                uses_now: true,
                columns: shown(columns, &create)?,
                source: None,
                otherwise: NoRow::Usual,
                answer: create.options.answer.unwrap_or(Answer::Object),
            })),
            EndpointAction::Select { columns, source: Some(source), otherwise } => {
                let view = view.ok_or_else(|| EngineError::not_found(ObjectKind::View, &*source.view))?;
                Action::Select(Box::new(compile_lookup(&create, columns, source, otherwise.as_ref(), view)?))
            }
        };
        Ok(Endpoint::with(entry, create, parameters, checks, action))
    }

    fn with(
        entry: &EndpointEntry,
        create: CreateEndpoint,
        parameters: Vec<Parameter>,
        checks: Vec<ParameterCheck>,
        action: Action,
    ) -> Endpoint {
        let places = parameters.iter().map(|parameter| parameter.place.clone()).collect();
        let counts = EndpointCounts::default();
        Endpoint { id: entry.id, created: entry.created, create, counts, places, parameters, checks, action }
    }
}

fn compiled_parameter(
    create: &CreateEndpoint,
    parameter: &swiftwater_lang::ddl::Parameter,
) -> Result<Parameter, EngineError> {
    let place = match &parameter.place {
        ParameterPlace::Path => {
            let is_it =
                |segment: &Segment| matches!(segment, Segment::Parameter(name) if *name == parameter.name);
            let segment = create.name.path.segments().iter().position(is_it);
            EndpointPlace::Path(segment.unwrap_or_default())
        }
        ParameterPlace::Query(name) => EndpointPlace::Query(name.clone()),
        ParameterPlace::Body(path) => {
            let keys = path.steps().iter().filter_map(|step| match step {
                Step::Key(key) => Some(key.clone()),
                // None leads into a list: that was refused.
                Step::Index(_) => None,
            });
            EndpointPlace::Body(keys.collect())
        }
    };
    let default = match &parameter.default {
        None => None,
        Some(DefaultValue::Now) => Some(DefaultProgram::Now),
        Some(DefaultValue::Constant(constant)) => {
            let expr = constant.expr().map_err(|errors| at(errors, &constant.text))?;
            let cast = match &parameter.ty {
                Type::Any => expr,
                ty => Expr::Call { function: Function::Cast(ty.clone()), args: vec![expr] },
            };
            Some(DefaultProgram::Constant(program(&cast)?))
        }
    };
    Ok(Parameter {
        name: parameter.name.clone(),
        ty: parameter.ty.clone(),
        place,
        not_null: parameter.not_null,
        default,
    })
}

fn compile_checks(create: &CreateEndpoint) -> Result<Vec<ParameterCheck>, EngineError> {
    let checks = create.all_checks().map(|(place, check)| {
        let (expr, _) = parse_over_parameters(&check.check.text, &create.parameters)
            .map_err(|errors| at(errors, &check.check.text))?;
        let fails = Expr::Call { function: Function::Not, args: vec![expr] };
        let label = check.check.name.as_deref().unwrap_or(&check.check.text);
        let usual = || match place {
            Some(place) => {
                format!("`{}`: `CHECK ({label})` failed", create.parameters[place].name)
            }
            None => format!("`CHECK ({label})` failed"),
        };
        let refusal = check.refusal.as_ref();
        let message = refusal.and_then(|refusal| refusal.message.as_deref()).map(str::to_owned);
        Ok(ParameterCheck {
            fails: program(&fails)?,
            status: refusal.map_or(400, |refusal| refusal.status),
            message: message.unwrap_or_else(usual),
        })
    });
    checks.collect::<Result<_, EngineError>>()
}

/// Compiles the event that a request makes: columns over parameters, or all parameters where there are none.
fn compile_event(
    create: &CreateEndpoint,
    stream: &CreateStream,
    event: Option<&[EndpointColumn]>,
) -> Result<EventShape, EngineError> {
    if create.options.ack == Some(Ack::Disk) && !stream.is_stored() {
        let message = format!("`ack = disk` needs a stored stream, and `{}` is live-only", stream.name);
        return Err(unfit(message, "Leave `ack = disk` out, or create the stream WITH (store = true)."));
    }
    let of_parameter = |(slot, parameter): (usize, &swiftwater_lang::ddl::Parameter)| {
        let slot = program(&Expr::Slot(slot))?;
        Ok::<_, EngineError>((parameter.name.clone(), Some(parameter.ty.clone()), slot))
    };
    let members: Vec<Named> = match event {
        Some(columns) => self::columns(columns, create)?,
        None => create.parameters.iter().enumerate().map(of_parameter).collect::<Result<_, _>>()?,
    };
    members.iter().try_for_each(|(name, ty, _)| check_column_type(stream, name, ty.as_ref()))?;
    let members = members.into_iter().map(|(name, _, program)| (name, program)).collect();
    EventShape::new(members, stream)
}

/// Types whose values can be equal.
#[derive(PartialEq)]
enum TypeKind {
    Number,
    Text,
    Truth,
    Time,
    Container,
}

fn kind(ty: &Type) -> TypeKind {
    use swiftwater_event::Primitive::{Boolean, Double, Float, Integer, Long, String, Timestamp};
    match ty {
        Type::Primitive(Integer | Long | Float | Double) => TypeKind::Number,
        Type::Primitive(String) => TypeKind::Text,
        Type::Primitive(Boolean) => TypeKind::Truth,
        Type::Primitive(Timestamp(_)) => TypeKind::Time,
        Type::Any | Type::List(_) | Type::Map(_) => TypeKind::Container,
    }
}

/// An error where a column of the stream takes no value of the type that it is given.
fn check_column_type(stream: &CreateStream, name: &str, given: Option<&Type>) -> Result<(), EngineError> {
    let column = stream.columns.iter().find(|column| *column.name == *name);
    let (Some(column), Some(given)) = (column, given) else { return Ok(()) };
    if takes(&column.ty, given) {
        return Ok(());
    }
    let message =
        format!("column `{name}` of stream `{}` is {}, and its value is {given}", stream.name, column.ty);
    Err(unfit(message, "Declare the parameter with this type, or write CAST(… AS …) in the SELECT."))
}

/// True if a column takes any value of a type, as it is written in an event.
fn takes(column: &Type, given: &Type) -> bool {
    use TypeKind::{Container, Number, Text, Time, Truth};
    use swiftwater_event::Primitive::{Double, Float};
    match (column, given) {
        (Type::Any, _) | (_, Type::Any) => true,
        (Type::List(column), Type::List(given)) | (Type::Map(column), Type::Map(given)) => {
            takes(column, given)
        }
        // Such a column accepts the texts `NaN` and those of the infinities.
        (Type::Primitive(Float | Double), given) if kind(given) == Text => true,
        (column, given) => match kind(column) {
            Number => kind(given) == Number,
            Text => matches!(kind(given), Text | Time),
            Truth => kind(given) == Truth,
            Time => matches!(kind(given), Time | Text | Number),
            Container => false,
        },
    }
}

/// A column's name, what its values are where that is known, and what computes them.
type Named = (Box<str>, Option<Type>, Program);

/// Columns over parameters.
fn columns(columns: &[EndpointColumn], create: &CreateEndpoint) -> Result<Vec<Named>, EngineError> {
    let column = |column: &EndpointColumn| {
        let (expr, ty) = parse_over_parameters(&column.text, &create.parameters)
            .map_err(|errors| at(errors, &column.text))?;
        Ok((column.name.clone(), ty, program(&expr)?))
    };
    columns.iter().map(column).collect()
}

fn shown(columns: &[EndpointColumn], create: &CreateEndpoint) -> Result<Vec<ShownColumn>, EngineError> {
    let columns = self::columns(columns, create)?;
    Ok(columns.into_iter().map(|(name, ty, program)| ShownColumn::new(&name, ty, program)).collect())
}

fn program(expr: &Expr) -> Result<Program, EngineError> {
    let compiled = Program::compile(expr, Dialect::Native, &mut Wants::new());
    compiled.map_err(|error| unfit(error.to_string(), ""))
}

/// Errors of an expression, with their places in it.
fn at(errors: QueryErrors, text: &str) -> EngineError {
    EngineError::Expression { text: text.into(), errors }
}

/// Endpoints of a stream that are to be compiled anew; what they counted goes on with them.
pub(super) fn with_counts_of(new: Endpoint, old: &Endpoint) -> Arc<Endpoint> {
    Arc::new(Endpoint { counts: old.counts.copied(), ..new })
}
