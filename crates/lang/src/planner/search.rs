//! Plans `SEARCH('words')` over an event and `SEARCH(x, 'words')` over a value; the query is checked here.

use swiftwater_event::{Path, Type};
use swiftwater_text::{EventSearch, query::Operator};

use super::{
    Planner,
    check::Ty,
    lower::{Scope, Typed},
};
use crate::{
    ast::Node,
    plan::{Expr, Function, Literal},
    source::Fault,
};

impl Planner<'_> {
    pub(super) fn search(&mut self, node: &Node, args: &[Node], scope: Scope) -> Option<Typed> {
        let (searched, query) = match args {
            [query] => (self.searched_event(node, scope), query),
            [searched, query, ..] => (self.lower(searched, scope), query),
            [] => return None,
        };
        let lowered = self.lower(query, scope)?;
        let Expr::Literal(Literal::String(text)) = &lowered.expr else {
            let fault = Fault::at(query.span, "the query of SEARCH must be a constant text");
            return self.unknown_for(fault.hint("Write SEARCH('timeout OR refused')."));
        };
        let is_of_event = args.len() == 1;
        let search = if is_of_event { EventSearch::of_event } else { EventSearch::of_value };
        if let Err(faults) = search(text, Operator::And, None) {
            let fault = Fault::at(query.span, format!("the search cannot be read: {faults}"));
            let hint = faults.0.into_iter().find_map(|fault| fault.hint);
            return self.unknown_for(match hint {
                Some(hint) => fault.hint(hint),
                None => fault,
            });
        }
        Some(self.typed_call(Function::Search, vec![searched?, lowered]))
    }

    /// The whole event, where there is one.
    fn searched_event(&mut self, node: &Node, scope: Scope) -> Option<Typed> {
        if !matches!(scope, Scope::Event | Scope::RawOrder) || self.only_slots.is_some() {
            let fault = Fault::at(node.span, "there is no event to search here");
            return self.unknown_for(fault.hint("Name a column: SEARCH(column, 'words')."));
        }
        Some(Typed { expr: Expr::Path { path: Path::event(), ty: Type::Any }, ty: Ty::Unknown })
    }
}
