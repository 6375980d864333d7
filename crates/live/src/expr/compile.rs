//! Compiles the plan's expressions to nodes: counts operands, recognises constants, compiles patterns.

use swiftwater_event::Want;
use swiftwater_lang::Dialect;
use swiftwater_lang::plan::{Comparison, Expr, Function, Literal, Quantifier};
use swiftwater_text::{EventSearch, query::Operator};

use super::Wants;
use super::arithmetic::Arithmetic;
use super::like::LikePattern;
use super::membership::ConstantSet;
use super::pattern::{self, Patterns};
use super::predicate::Predicate;
use super::text_match::TextMatch;
use super::time_pattern::DateTimePattern;
use super::value_node::{Binary, ColumnNode, Constant, Node, Unary};

/// An expression that cannot be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// A constant pattern of RLIKE that cannot be used.
    #[error("pattern `{pattern}` cannot be used: {reason}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// The reason.
        reason: String,
    },
    /// A constant pattern of UNIXTIMESTAMP that cannot be used.
    #[error("time pattern `{pattern}` cannot be used")]
    TimePattern {
        /// The pattern.
        pattern: String,
    },
    /// A constant query of SEARCH that cannot be used.
    #[error("search `{query}` cannot be used: {reason}")]
    Search {
        /// The query.
        query: String,
        /// The reason.
        reason: String,
    },
    /// A function with too few or too many operands.
    #[error("`{function}` does not take {count} operands")]
    Operands {
        /// The function.
        function: String,
        /// The number that was given.
        count: usize,
    },
    /// A distribution with too many points.
    #[error("a distribution of {count} points is too large: {most} are allowed")]
    Points {
        /// The number that it has.
        count: u64,
        /// The greatest number that it may have.
        most: u64,
    },
    /// Windows of which too many hold one event.
    #[error("an event would be in {windows} windows at once, limit is {max}")]
    Overlap {
        /// The number of windows.
        windows: u64,
        /// The limit.
        max: u64,
    },
}

/// The node of an expression.
pub(super) fn node(expr: &Expr, dialect: Dialect, wants: &mut Wants) -> Result<Node, CompileError> {
    Compiler { dialect, wants }.node(expr)
}

struct Compiler<'w> {
    dialect: Dialect,
    wants: &'w mut Wants,
}

impl Compiler<'_> {
    fn node(&mut self, expr: &Expr) -> Result<Node, CompileError> {
        match expr {
            Expr::Literal(literal) => Ok(Node::Constant(constant(literal))),
            Expr::Path { path, ty } => {
                let want = self.wants.intern(Want { path: path.clone(), ty: ty.clone() });
                Ok(Node::Column(ColumnNode { want, ty: ty.clone() }))
            }
            Expr::Slot(slot) => Ok(Node::Slot(*slot)),
            Expr::Call { function, args } => self.call(function, args),
        }
    }

    fn nodes(&mut self, args: &[Expr]) -> Result<Vec<Node>, CompileError> {
        args.iter().map(|arg| self.node(arg)).collect()
    }

    /// Exactly N operands.
    fn operands<const N: usize>(
        &mut self,
        function: &Function,
        args: &[Expr],
    ) -> Result<[Node; N], CompileError> {
        let wrong = || CompileError::Operands { function: format!("{function:?}"), count: args.len() };
        self.nodes(args)?.try_into().map_err(|_| wrong())
    }

    fn call(&mut self, function: &Function, args: &[Expr]) -> Result<Node, CompileError> {
        let wrong = || CompileError::Operands { function: format!("{function:?}"), count: args.len() };
        let arithmetic = |operator| Binary::Arithmetic(operator);
        Ok(match function {
            Function::Add => self.binary(arithmetic(Arithmetic::Add), function, args)?,
            Function::Subtract => self.binary(arithmetic(Arithmetic::Subtract), function, args)?,
            Function::Multiply => self.binary(arithmetic(Arithmetic::Multiply), function, args)?,
            Function::Divide => self.binary(arithmetic(Arithmetic::Divide), function, args)?,
            Function::Remainder => self.binary(arithmetic(Arithmetic::Remainder), function, args)?,
            Function::Element => self.binary(Binary::Element, function, args)?,
            Function::Filter => self.binary(Binary::Filter, function, args)?,
            Function::Concat => self.binary(Binary::Concat, function, args)?,
            Function::Abs => self.unary(Unary::Abs, function, args)?,
            Function::Trim => self.unary(Unary::Trim, function, args)?,
            Function::Lower => self.unary(Unary::Lower, function, args)?,
            Function::Upper => self.unary(Unary::Upper, function, args)?,
            Function::Hash => self.unary(Unary::Hash, function, args)?,
            Function::Cast(ty) => self.unary(Unary::Cast(ty.clone()), function, args)?,
            Function::SizeOf => {
                let [operand] = self.operands(function, args)?;
                Node::Unary(Unary::SizeOf { declared: operand.declared() }, Box::new(operand))
            }
            Function::Substring if (2..=3).contains(&args.len()) => Node::Substring(self.nodes(args)?),
            Function::Substring => return Err(wrong()),
            Function::UnixTimestamp => self.unix_timestamp(args)?,
            Function::Arrival => Node::Arrival,
            Function::List => self.list(args)?,
            Function::If => {
                let [condition, then, otherwise] = args else { return Err(wrong()) };
                let condition = self.condition(condition)?;
                let arms = vec![(condition, self.node(then)?)];
                Node::Case { arms, otherwise: Box::new(self.node(otherwise)?) }
            }
            Function::Case => {
                let Some((otherwise, arms)) = args.split_last().filter(|(_, arms)| arms.len() % 2 == 0)
                else {
                    return Err(wrong());
                };
                let arms =
                    arms.chunks_exact(2).map(|arm| Ok((self.condition(&arm[0])?, self.node(&arm[1])?)));
                let arms = arms.collect::<Result<_, _>>()?;
                Node::Case { arms, otherwise: Box::new(self.node(otherwise)?) }
            }
            Function::Coalesce => Node::Coalesce(self.nodes(args)?),
            _ => Node::Truth(Box::new(self.predicate(function, args)?)),
        })
    }

    fn unary(&mut self, operator: Unary, function: &Function, args: &[Expr]) -> Result<Node, CompileError> {
        let [operand] = self.operands(function, args)?;
        Ok(Node::Unary(operator, Box::new(operand)))
    }

    fn binary(&mut self, operator: Binary, function: &Function, args: &[Expr]) -> Result<Node, CompileError> {
        Ok(Node::Binary(operator, Box::new(self.operands(function, args)?)))
    }

    /// A list of constants is a constant.
    fn list(&mut self, args: &[Expr]) -> Result<Node, CompileError> {
        let items = self.nodes(args)?;
        let constants = items.iter().map(|item| match item {
            Node::Constant(constant) => Some(constant.clone()),
            _ => None,
        });
        match constants.collect() {
            Some(constants) => Ok(Node::Constant(Constant::List(constants))),
            None => Ok(Node::List(items)),
        }
    }

    fn unix_timestamp(&mut self, args: &[Expr]) -> Result<Node, CompileError> {
        match args {
            [] => Ok(Node::Now),
            [_] => self.unary(Unary::Seconds, &Function::UnixTimestamp, args),
            _ => {
                let operands: [Node; 2] = self.operands(&Function::UnixTimestamp, args)?;
                let pattern = match &operands[1] {
                    Node::Constant(Constant::String(text)) => {
                        match (DateTimePattern::parse(text), self.dialect) {
                            (None, Dialect::Native) => {
                                return Err(CompileError::TimePattern { pattern: text.to_string() });
                            }
                            (pattern, _) => pattern,
                        }
                    }
                    _ => None,
                };
                Ok(Node::Binary(Binary::Seconds(pattern), Box::new(operands)))
            }
        }
    }

    /// An operand of AND, OR, XOR, NOT and WHERE: any primitive, cast to BOOLEAN.
    fn truth(&mut self, expr: &Expr) -> Result<Predicate, CompileError> {
        Ok(match self.node(expr)? {
            Node::Truth(predicate) => *predicate,
            node => Predicate::Value { node, strict: false },
        })
    }

    /// The condition of IF and CASE: in Bullet it has to be a BOOLEAN.
    fn condition(&mut self, expr: &Expr) -> Result<Predicate, CompileError> {
        Ok(match self.truth(expr)? {
            Predicate::Value { node, .. } => {
                Predicate::Value { node, strict: self.dialect == Dialect::Bullet }
            }
            predicate => predicate,
        })
    }

    fn predicate(&mut self, function: &Function, args: &[Expr]) -> Result<Predicate, CompileError> {
        let wrong = || CompileError::Operands { function: format!("{function:?}"), count: args.len() };
        Ok(match function {
            Function::And | Function::Or => {
                if args.is_empty() {
                    return Err(wrong());
                }
                let is_and = *function == Function::And;
                let mut operands = Vec::with_capacity(args.len());
                for arg in args {
                    match self.truth(arg)? {
                        // The first operand may be spliced in: it runs before all others either way.
                        Predicate::And(inner) if is_and && operands.is_empty() => operands = inner,
                        Predicate::Or(inner) if !is_and && operands.is_empty() => operands = inner,
                        operand => operands.push(operand),
                    }
                }
                if is_and { Predicate::And(operands) } else { Predicate::Or(operands) }
            }
            Function::Xor => {
                let [left, right] = args else { return Err(wrong()) };
                Predicate::Xor(Box::new([self.truth(left)?, self.truth(right)?]))
            }
            Function::Not => {
                let [operand] = args else { return Err(wrong()) };
                Predicate::Not(Box::new(self.truth(operand)?))
            }
            Function::IsNull | Function::IsNotNull => {
                let [node] = self.operands(function, args)?;
                Predicate::IsNull { negated: *function == Function::IsNotNull, node }
            }
            Function::Compare(comparison, Quantifier::One) => {
                let operands = self.operands(function, args)?;
                comparison_of(*comparison, operands)
            }
            Function::Compare(comparison, quantifier) => {
                let operands: Box<[Node; 2]> = Box::new(self.operands(function, args)?);
                let declared = operands[1].declared();
                let all = *quantifier == Quantifier::All;
                Predicate::Quantified { comparison: *comparison, all, operands, declared }
            }
            Function::MatchesText(comparison) => match self.operands(function, args)? {
                [node, Node::Constant(Constant::String(text))] => {
                    Predicate::MatchesText { comparison: *comparison, node, text: TextMatch::new(&text) }
                }
                _ => return Err(wrong()),
            },
            Function::Between { negated } => {
                Predicate::Between { negated: *negated, operands: Box::new(self.operands(function, args)?) }
            }
            Function::In { negated } => match self.operands(function, args)? {
                [node, Node::Constant(Constant::List(items))] => {
                    Predicate::InConstants { negated: *negated, node, set: ConstantSet::new(items) }
                }
                operands => {
                    let declared = operands[1].declared();
                    Predicate::In { negated: *negated, operands: Box::new(operands), declared }
                }
            },
            Function::ContainsValue => {
                let (operands, declared) = self.container(function, args)?;
                Predicate::ContainsValue { operands, declared }
            }
            Function::ContainsKey => {
                let (operands, declared) = self.container(function, args)?;
                Predicate::ContainsKey { operands, declared }
            }
            Function::SizeIs => {
                let (operands, declared) = self.container(function, args)?;
                Predicate::SizeIs { operands, declared }
            }
            Function::RLike { any, negated } => {
                let operands = self.operands(function, args)?;
                self.rlike(*any, *negated, operands)?
            }
            Function::Search => match self.operands(function, args)? {
                [node, Node::Constant(Constant::String(text))] => {
                    let is_of_event = matches!(args, [Expr::Path { path, .. }, _] if path.is_event());
                    let search = if is_of_event { EventSearch::of_event } else { EventSearch::of_value };
                    let search = search(&text, Operator::And, None).map_err(|faults| {
                        CompileError::Search { query: text.to_string(), reason: faults.to_string() }
                    })?;
                    Predicate::Search { node, search: Box::new(search) }
                }
                _ => return Err(wrong()),
            },
            Function::Like { negated } => match self.operands(function, args)? {
                [node, Node::Constant(Constant::String(text))] => {
                    Predicate::Like { negated: *negated, node, pattern: LikePattern::new(&text) }
                }
                operands => Predicate::MatchesRow {
                    negated: *negated,
                    any: false,
                    like: true,
                    operands: Box::new(operands),
                },
            },
            _ => Predicate::Value { node: self.call(function, args)?, strict: false },
        })
    }

    fn container(
        &mut self,
        function: &Function,
        args: &[Expr],
    ) -> Result<(Box<[Node; 2]>, Option<super::java_type::JavaType>), CompileError> {
        let operands: Box<[Node; 2]> = Box::new(self.operands(function, args)?);
        let declared = operands[0].declared();
        Ok((operands, declared))
    }

    fn rlike(&self, any: bool, negated: bool, operands: [Node; 2]) -> Result<Predicate, CompileError> {
        let constants = match &operands[1] {
            Node::Constant(Constant::List(items)) if any => items.as_slice(),
            Node::Constant(constant @ Constant::String(_)) if !any => std::slice::from_ref(constant),
            _ => {
                return Ok(Predicate::MatchesRow { negated, any, like: false, operands: Box::new(operands) });
            }
        };
        let mut compiled = Vec::new();
        for constant in constants {
            match constant {
                Constant::Null => {}
                Constant::String(text) => match (pattern::compile_java(text), self.dialect) {
                    (Ok(pattern), _) => compiled.push(Some(pattern)),
                    (Err(_), Dialect::Bullet) => compiled.push(None),
                    (Err(error), Dialect::Native) => {
                        return Err(CompileError::Pattern {
                            pattern: text.to_string(),
                            reason: error.to_string(),
                        });
                    }
                },
                _ => compiled.push(None),
            }
        }
        let null = constants.contains(&Constant::Null);
        let [node, _] = operands;
        Ok(Predicate::Matches { negated, node, patterns: Patterns::new(compiled, null) })
    }
}

/// A constant goes to the right: both orders mean the same, and the same rows are null or in error.
fn comparison_of(comparison: Comparison, operands: [Node; 2]) -> Predicate {
    let is_scalar = |constant: &Constant| !matches!(constant, Constant::List(_) | Constant::Null);
    match operands {
        [node, Node::Constant(constant)] if is_scalar(&constant) => {
            Predicate::CompareConstant { comparison, node, constant }
        }
        [Node::Constant(constant), node] if is_scalar(&constant) => {
            Predicate::CompareConstant { comparison: mirrored(comparison), node, constant }
        }
        operands => Predicate::Compare { comparison, operands: Box::new(operands) },
    }
}

/// The comparison of the same operands the other way round.
pub(crate) fn mirrored(comparison: Comparison) -> Comparison {
    match comparison {
        Comparison::Lt => Comparison::Gt,
        Comparison::Le => Comparison::Ge,
        Comparison::Gt => Comparison::Lt,
        Comparison::Ge => Comparison::Le,
        symmetric => symmetric,
    }
}

fn constant(literal: &Literal) -> Constant {
    match literal {
        Literal::Null => Constant::Null,
        Literal::Boolean(truth) => Constant::Boolean(*truth),
        Literal::Integer(number) => Constant::Integer(*number),
        Literal::Long(number) => Constant::Long(*number),
        Literal::Float(number) => Constant::Float(*number),
        Literal::Double(number) => Constant::Double(*number),
        Literal::String(text) => Constant::String(text.clone()),
    }
}
