//! Parses `CREATE ENDPOINT`, and the names of endpoints.

use swiftwater_event::{Path, Step, Type, did_you_mean};

use super::{
    super::{Parsed, Parser},
    check::{DeclaredColumn, check_default},
};
use crate::{
    ast::{Name, Node, NodeKind},
    ddl::{
        Answer, ColumnDef, CreateEndpoint, ElseClause, EndpointAction, EndpointColumn, EndpointMethod,
        EndpointName, EndpointOption, EndpointOptions, OtherFields, PARAMETERS_MAX, Parameter,
        ParameterCheck, ParameterPlace, PathTemplate, Refusal, RowSource,
        endpoint::{ENDPOINT_ROWS_MAX, plan},
    },
    keyword::Keyword,
    lexer::{Symbol, TokenKind, short},
    source::{Fault, Span},
};

/// The hint for queries that are more than a lookup of rows.
const POST_SQL: &str = "An endpoint reads rows of a view by their key; POST /v1/sql runs any query.";

/// Conditions with their syntax, to be planned when all parameters are known.
type CheckNodes = Vec<Node>;

impl Parser<'_> {
    /// `POST 'path'`.
    pub(super) fn endpoint_name(&mut self) -> Parsed<EndpointName> {
        let methods = [EndpointMethod::Get, EndpointMethod::Post];
        let Some(method) = methods.into_iter().find(|method| self.at_word(0, method.text())) else {
            let fault = self.expected_one_of(&["GET", "POST"]);
            let is_other = ["PUT", "PATCH", "DELETE", "HEAD"].iter().any(|word| self.at_word(0, word));
            return Err(if is_other {
                fault.hint("The methods of endpoints are GET (with HEAD) and POST.")
            } else {
                fault
            });
        };
        self.advance();
        let (text, span) = self.text("a path in single quotes, such as '/stats/{userId}'")?;
        let path = PathTemplate::parse(&text).map_err(|why| {
            Fault::at(span, format!("`{}` cannot be an endpoint's path: {why}", short(&text)))
        })?;
        Ok(EndpointName { method, path })
    }

    pub(super) fn create_endpoint(&mut self) -> Parsed<CreateEndpoint> {
        let if_not_exists = self.if_not_exists()?;
        let start = self.span();
        let name = self.endpoint_name()?;
        let name_span = start.to(self.last_span());
        let mut create = CreateEndpoint {
            name,
            if_not_exists,
            parameters: Vec::new(),
            checks: Vec::new(),
            action: EndpointAction::Select { columns: Vec::new(), source: None, otherwise: None },
            options: EndpointOptions::default(),
        };
        let mut checks = CheckNodes::new();
        if self.accept_symbol(Symbol::LeftParen) {
            loop {
                if self.at_check() {
                    let check = self.parameter_check(&mut checks)?;
                    create.checks.push(check);
                } else {
                    let parameter = self.parameter(&create, &mut checks)?;
                    create.parameters.push(parameter);
                }
                if create.parameters.len() + create.checks.len() > PARAMETERS_MAX {
                    let message = format!("an endpoint has at most {PARAMETERS_MAX} parameters and checks");
                    return Err(Fault::at(self.last_span(), message));
                }
                if !self.accept_symbol(Symbol::Comma) {
                    break;
                }
            }
            if !self.accept_symbol(Symbol::RightParen) {
                return Err(self.expected_one_of(&["NOT NULL", "DEFAULT", "CHECK", "`,`", "`)`"]));
            }
        }
        let lacks = |name: &&str| !create.parameters.iter().any(|parameter| *parameter.name == **name);
        if let Some(lacking) = create.name.path.parameters().find(lacks) {
            let message = format!("`{lacking}` is in the path, and is not declared");
            let hint = format!("Declare it: ({lacking} STRING, …).");
            return Err(Fault::at(name_span, message).hint(hint));
        }
        for check in &checks {
            self.record_planned(check, &create.parameters, true);
        }
        create.action = match create.name.method {
            EndpointMethod::Post if self.accept_word("INTO") => self.event_action(&create.parameters)?,
            EndpointMethod::Post => {
                return Err(self
                    .expected_one_of(&["INTO"])
                    .hint("POST writes an event: INTO stream, and a SELECT of its columns."));
            }
            EndpointMethod::Get if self.accept_word("AS") => self.select_row(&create.parameters)?,
            EndpointMethod::Get => {
                return Err(self
                    .expected_one_of(&["AS"])
                    .hint("GET returns rows: AS SELECT … FROM view WHERE key = $parameter."));
            }
        };
        let mut spans = Vec::new();
        if self.accept_word("WITH") {
            let names = (EndpointOption::of as fn(&str) -> _, EndpointOption::text as fn(_) -> _);
            let mut options = EndpointOptions::default();
            self.options(names, |option, value| options.set(option, value), &mut spans)?;
            create.options = options;
        }
        if self.faults.is_empty() {
            self.check_whole(&create, &spans);
        }
        Ok(create)
    }

    // ---- parameters

    fn parameter(&mut self, create: &CreateEndpoint, checks: &mut CheckNodes) -> Parsed<Parameter> {
        let name = self.name("a parameter's name")?;
        let is_same = |other: &Parameter| other.name.to_lowercase() == name.text.to_lowercase();
        if create.parameters.iter().any(is_same) {
            let message = format!("parameter `{}` is declared twice", short(&name.text));
            return Err(Fault::at(name.span, message));
        }
        if name.text.starts_with('$') {
            return Err(Fault::at(name.span, "a parameter is declared without its `$`"));
        }
        let ty = self.column_type()?;
        let mut parameter = Parameter {
            place: create.usual_place(&name.text),
            name: name.text.clone(),
            ty,
            not_null: false,
            default: None,
            checks: Vec::new(),
        };
        let mut declared = DeclaredColumn {
            def: ColumnDef::new(name.text.clone(), parameter.ty.clone()),
            name,
            default: None,
            not_null: None,
            checks: Vec::new(),
        };
        loop {
            let span = self.span();
            if let Some(place) = self.parameter_place(create, &declared.name)? {
                parameter.place = place;
            } else if self.accept_words(&["NOT", "NULL"]) {
                declared.not_null = Some(span.to(self.last_span()));
                parameter.not_null = true;
            } else if self.accept_word("NULL") {
                // SQL allows this, and it holds anyway.
            } else if self.accept_word("DEFAULT") {
                if declared.default.replace(self.default_value()?).is_some() {
                    return Err(Fault::at(span, "a parameter has one DEFAULT"));
                }
            } else if self.at_check() {
                parameter.checks.push(self.parameter_check(checks)?);
            } else {
                break;
            }
        }
        let is_text = !matches!(parameter.place, ParameterPlace::Body(_));
        if is_text && !matches!(parameter.ty, Type::Primitive(_)) {
            let message = format!("a parameter of a path or query string cannot be {}", declared.def.ty);
            return Err(Fault::at(declared.name.span, message).hint("Send it in the body of a POST."));
        }
        check_default(&declared, &mut self.faults);
        parameter.default = declared.default.map(|default| default.value);
        Ok(parameter)
    }

    /// Parses the source of a parameter, if it is stated here.
    fn parameter_place(&mut self, create: &CreateEndpoint, name: &Name) -> Parsed<Option<ParameterPlace>> {
        let span = self.span();
        let is_in_path = create.name.path.has_parameter(&name.text);
        let place = if self.accept_word("PATH") {
            if !is_in_path {
                let message = format!("`{}` is not in the path", short(&name.text));
                return Err(Fault::at(span, message)
                    .hint(format!("Write `{{{}}}` for one of its segments.", name.text)));
            }
            ParameterPlace::Path
        } else if self.accept_word("QUERY") {
            ParameterPlace::Query(match self.kind() {
                TokenKind::String(_) => self.text("a name in single quotes")?.0,
                _ => name.text.clone(),
            })
        } else if self.accept_word("BODY") {
            if create.name.method == EndpointMethod::Get {
                return Err(Fault::at(span, "a GET has no body").hint("Write QUERY, or make it a POST."));
            }
            ParameterPlace::Body(match self.kind() {
                TokenKind::String(_) => self.body_path()?,
                _ => Path::field(name.text.clone()),
            })
        } else {
            return Ok(None);
        };
        if is_in_path && place != ParameterPlace::Path {
            return Err(Fault::at(span, format!("`{}` is in the path", short(&name.text))));
        }
        Ok(Some(place))
    }

    fn body_path(&mut self) -> Parsed<Path> {
        let (text, span) = self.text("a path in single quotes, such as 'a.b'")?;
        let path = Path::parse(&text).map_err(|error| Fault::at(span, error.to_string()))?;
        if path.steps().iter().any(|step| matches!(step, Step::Index(_))) {
            return Err(Fault::at(span, "a parameter cannot be inside a list")
                .hint("Declare the list as JSON, and select its elements: list[0]."));
        }
        Ok(path)
    }

    /// `[CONSTRAINT name] CHECK (condition) [ELSE status ['message']]`.
    fn parameter_check(&mut self, nodes: &mut CheckNodes) -> Parsed<ParameterCheck> {
        let declared = self.check()?;
        nodes.push(declared.node);
        let refusal = if self.accept_keyword(Keyword::Else) { Some(self.refusal()?) } else { None };
        Ok(ParameterCheck { check: declared.check, refusal })
    }

    /// `404 ['message']`.
    fn refusal(&mut self) -> Parsed<Refusal> {
        let span = self.span();
        let status = match self.kind() {
            TokenKind::Whole { value, .. } => u16::try_from(*value).ok(),
            _ => return Err(self.expected("a status like 404")),
        };
        let Some(status) = status.filter(|status| (400..500).contains(status)) else {
            return Err(Fault::at(span, "a refusal has a status from 400 to 499"));
        };
        self.advance();
        let message = match self.kind() {
            TokenKind::String(_) => Some(self.text("a message")?.0),
            _ => None,
        };
        Ok(Refusal { status, message })
    }

    // ---- what it does

    fn event_action(&mut self, parameters: &[Parameter]) -> Parsed<EndpointAction> {
        let stream = self.stream_named("a stream's name")?;
        let event = match self.accept_word("SELECT") {
            true => Some(self.columns_of_parameters(parameters)?),
            false => None,
        };
        let returning = match self.accept_word("RETURNING") {
            true => Some(self.columns_of_parameters(parameters)?),
            false => None,
        };
        Ok(EndpointAction::Into { stream, event, returning })
    }

    fn select_row(&mut self, parameters: &[Parameter]) -> Parsed<EndpointAction> {
        if !self.accept_word("SELECT") {
            return Err(self.expected_one_of(&["SELECT"]));
        }
        let columns = self.endpoint_columns()?;
        let source =
            if self.accept_keyword(Keyword::From) { Some(self.row_source(parameters)?) } else { None };
        for (_, node) in &columns {
            match source {
                Some(_) => self.record_named(node, parameters),
                None => self.record_planned(node, parameters, false),
            }
        }
        let columns = columns.into_iter().map(|(column, _)| column).collect();
        let span = self.span();
        let otherwise = if self.accept_keyword(Keyword::Else) {
            if source.is_none() {
                return Err(Fault::at(span, "ELSE needs a FROM: without one there is always a row")
                    .hint("Write ELSE after FROM view WHERE …."));
            }
            Some(if self.accept_word("SELECT") {
                ElseClause::Row(self.columns_of_parameters(parameters)?)
            } else {
                ElseClause::Status(self.refusal()?)
            })
        } else {
            None
        };
        Ok(EndpointAction::Select { columns, source, otherwise })
    }

    /// Parses the part after FROM.
    fn row_source(&mut self, parameters: &[Parameter]) -> Parsed<RowSource> {
        let span = self.span();
        if self.at_word(0, "STREAM") && self.symbol_at(1) == Some(Symbol::LeftParen) {
            return Err(Fault::at(span, "an endpoint reads a view, not a stream")
                .hint("CREATE MATERIALIZED VIEW … AS SELECT … FROM STREAM(…) GROUP BY key."));
        }
        if self.is_symbol(Symbol::LeftParen) {
            return Err(Fault::at(span, "an endpoint reads one view").hint(POST_SQL));
        }
        let view = self.name_of("view")?;
        let condition = if self.accept_keyword(Keyword::Where) {
            let from = self.span();
            let node = self.expression()?;
            self.record_named(&node, parameters);
            Some(self.word(from.to(self.last_span())).into())
        } else {
            None
        };
        for word in ["GROUP", "ORDER", "HAVING", "JOIN", "LEFT", "INNER", "UNION", "WINDOWING", "LATERAL"] {
            if self.at_word(0, word) {
                let hint = match word {
                    "ORDER" => "Rows are in the order of their keys. POST /v1/sql runs any query.",
                    _ => POST_SQL,
                };
                return Err(Fault::at(self.span(), format!("{word} is not allowed here")).hint(hint));
            }
        }
        let limit = if self.accept_keyword(Keyword::Limit) {
            let span = self.span();
            let limit = self.positive_number("the most rows")?;
            if limit > ENDPOINT_ROWS_MAX {
                let message = format!("an endpoint answers with at most {ENDPOINT_ROWS_MAX} rows");
                return Err(Fault::at(span, message));
            }
            Some(limit)
        } else {
            None
        };
        Ok(RowSource { view, condition, limit })
    }

    fn columns_of_parameters(&mut self, parameters: &[Parameter]) -> Parsed<Vec<EndpointColumn>> {
        let columns = self.endpoint_columns()?;
        for (_, node) in &columns {
            self.record_planned(node, parameters, false);
        }
        Ok(columns.into_iter().map(|(column, _)| column).collect())
    }

    fn endpoint_columns(&mut self) -> Parsed<Vec<(EndpointColumn, Node)>> {
        let columns = self.list(|parser| {
            if parser.is_symbol(Symbol::Star) {
                return Err(Fault::at(parser.span(), "`*` is not allowed here").hint("Name the columns."));
            }
            let from = parser.span();
            let node = parser.expression()?;
            let span = from.to(parser.last_span());
            // Words that would else be taken for a name without AS.
            let is_end = parser.at_any_word(&["RETURNING", "WITH"]);
            let alias = if is_end { None } else { parser.alias()? };
            let name = match (alias, &node.bare().kind) {
                (Some(alias), _) => alias.text,
                (None, NodeKind::Name(name)) => name.text.strip_prefix('$').unwrap_or(&name.text).into(),
                (None, NodeKind::Member(_, name)) => name.text.clone(),
                _ => return Err(Fault::at(span, "this column has no name").hint("Name it with AS.")),
            };
            Ok((EndpointColumn { name, text: parser.word(span).into() }, node, span))
        })?;
        for (place, (column, _, span)) in columns.iter().enumerate() {
            if columns[..place].iter().any(|(other, ..)| other.name == column.name) {
                let message = format!("two columns are named `{}`", short(&column.name));
                self.faults.push(Fault::at(*span, message).hint("Rename one of them with AS."));
            }
        }
        Ok(columns.into_iter().map(|(column, node, _)| (column, node)).collect())
    }

    // ---- what only the whole shows

    /// Plans an expression over parameters, and notes what is wrong with it.
    fn record_planned(&mut self, node: &Node, parameters: &[Parameter], is_condition: bool) {
        match plan::plan_over_parameters(node, parameters) {
            Ok((_, Some(ty))) if is_condition && ty != Type::BOOLEAN => {
                let message = format!("CHECK needs a condition, and this is {ty}");
                self.faults.push(Fault::at(node.span, message));
            }
            Ok(_) => {}
            Err(faults) => self.faults.extend(faults),
        }
    }

    /// Records unknown parameters, and aggregates, in an expression over a row whose columns are not known here.
    fn record_named(&mut self, node: &Node, parameters: &[Parameter]) {
        if node.is_aggregate() {
            let fault = Fault::at(node.span, "an aggregate is not allowed here");
            self.faults.push(fault.hint("Aggregate in the view. POST /v1/sql runs any query."));
            return;
        }
        if let NodeKind::Name(name) = &node.kind
            && let Some(parameter) = name.text.strip_prefix('$')
            && !parameters.iter().any(|known| *known.name == *parameter)
        {
            let fault = Fault::at(name.span, format!("there is no parameter `{}`", short(&name.text)));
            let near = did_you_mean(parameter, parameters.iter().map(|known| &*known.name));
            self.faults.push(match near {
                Some(near) => fault.hint(format!("Did you mean ${near}?")),
                None => fault,
            });
        }
        let mut children = Vec::new();
        node.children(&mut |child| children.push(child));
        children.into_iter().for_each(|child| self.record_named(child, parameters));
    }

    fn check_whole(&mut self, create: &CreateEndpoint, spans: &[(EndpointOption, Span)]) {
        let options = &create.options;
        let is_post = create.name.method == EndpointMethod::Post;
        let others = [
            (options.ack.is_some() && !is_post, EndpointOption::Ack, "POST"),
            (options.other_fields.is_some() && !is_post, EndpointOption::OtherFields, "POST"),
            (options.answer.is_some() && is_post, EndpointOption::Answer, "GET"),
        ];
        for (_, option, method) in others.into_iter().filter(|(is_wrong, ..)| *is_wrong) {
            let message = format!("`{}` is for endpoints of {method}", option.text());
            let span = spans.iter().find(|(other, _)| *other == option).map(|(_, span)| *span);
            self.faults.extend(span.map(|span| Fault::at(span, message)));
        }
        match &create.action {
            EndpointAction::Into { event: None, .. }
                if create.parameters.is_empty()
                    && !matches!(options.other_fields, None | Some(OtherFields::Keep)) =>
            {
                let fault = Fault::whole("all events of this endpoint would be empty");
                self.faults.push(fault.hint("Declare parameters, or leave `other_fields` out."));
            }
            EndpointAction::Select { source: Some(RowSource { limit: Some(_), .. }), .. }
                if options.answer == Some(Answer::Object) =>
            {
                let fault = Fault::whole("LIMIT is for answers of several rows");
                self.faults.push(fault.hint("Leave it out, or write `answer = rows`."));
            }
            _ => {}
        }
    }
}
