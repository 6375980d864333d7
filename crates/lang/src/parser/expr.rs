//! Parses expressions with an operator-precedence (Pratt) parser.
//!
//! Levels, loosest first. Native: OR, XOR, AND, NOT, IS NULL, BETWEEN, IN, RLIKE and LIKE, equality, order, `||`, `+ -`,
//! `* / %`, unary minus, steps into values. Bullet: the same, but NOT, SIZEOF and IS NULL are the tightest. All operators
//! associate to the left.

use super::{DEPTH_MAX, Parsed, Parser, call::BUILTINS};
use crate::{
    Dialect,
    ast::{Binary, Name, Node, NodeKind, Unary},
    complete::Expected,
    keyword::Keyword,
    lexer::{Symbol, TokenKind},
    plan::{Comparison, Literal, Quantifier},
    source::{Fault, Span},
};

/// The precedence of operators; see the head of this file.
pub(crate) mod level {
    pub(crate) const ANY: u8 = 0;
    pub(crate) const OR: u8 = 1;
    pub(crate) const XOR: u8 = 2;
    pub(crate) const AND: u8 = 3;
    pub(crate) const NOT: u8 = 4;
    pub(crate) const IS: u8 = 5;
    pub(crate) const BETWEEN: u8 = 6;
    pub(crate) const IN: u8 = 7;
    pub(crate) const LIKE: u8 = 8;
    pub(crate) const EQUALITY: u8 = 9;
    pub(crate) const ORDER: u8 = 10;
    pub(crate) const CONCAT: u8 = 11;
    pub(crate) const SUM: u8 = 12;
    pub(crate) const PRODUCT: u8 = 13;
    /// IS NULL in Bullet's dialect.
    pub(crate) const BULLET_IS: u8 = 14;
    pub(crate) const UNARY: u8 = 15;
}

/// An operator that follows its left operand.
enum Infix {
    And,
    Or,
    Is,
    Between { negated: bool },
    In { negated: bool },
    Like { negated: bool },
    RLike { negated: bool },
    Compare(Comparison),
    Plain(Binary),
}

impl Parser<'_> {
    pub(super) fn expression(&mut self) -> Parsed<Node> {
        self.expression_at(level::ANY)
    }

    /// An expression whose operators all bind at least as tightly as `loosest`.
    pub(super) fn expression_at(&mut self, loosest: u8) -> Parsed<Node> {
        self.nesting += 1;
        if self.nesting > DEPTH_MAX {
            return Err(too_deep(self.span()));
        }
        let mut left = self.operand(loosest)?;
        while let Some((infix, level)) = self.infix() {
            if level < loosest {
                break;
            }
            left = self.infix_expression(left, infix, level)?;
        }
        if self.dialect == Dialect::Bullet && self.is_keyword(Keyword::Not) && self.infix().is_none() {
            self.advance();
            return Err(self.expected_word(&[Keyword::RLike, Keyword::In, Keyword::Between]));
        }
        self.nesting -= 1;
        Ok(left)
    }

    pub(super) fn node(&self, kind: NodeKind, span: Span) -> Parsed<Node> {
        let mut node = Node { kind, span, depth: 1 };
        let mut deepest = 0;
        node.children(&mut |child| deepest = deepest.max(child.depth));
        node.depth = deepest + 1;
        if node.depth > DEPTH_MAX { Err(too_deep(span)) } else { Ok(node) }
    }

    // ---- operators between operands

    fn infix(&self) -> Option<(Infix, u8)> {
        let is_level = if self.dialect == Dialect::Bullet { level::BULLET_IS } else { level::IS };
        Some(match self.kind() {
            TokenKind::Symbol(symbol) => match symbol {
                Symbol::Plus => (Infix::Plain(Binary::Add), level::SUM),
                Symbol::Minus => (Infix::Plain(Binary::Subtract), level::SUM),
                Symbol::Star => (Infix::Plain(Binary::Multiply), level::PRODUCT),
                Symbol::Slash => (Infix::Plain(Binary::Divide), level::PRODUCT),
                Symbol::Percent => (Infix::Plain(Binary::Remainder), level::PRODUCT),
                Symbol::Concat => (Infix::Plain(Binary::Concat), level::CONCAT),
                Symbol::Eq => (Infix::Compare(Comparison::Eq), level::EQUALITY),
                Symbol::Ne => (Infix::Compare(Comparison::Ne), level::EQUALITY),
                Symbol::Lt => (Infix::Compare(Comparison::Lt), level::ORDER),
                Symbol::Le => (Infix::Compare(Comparison::Le), level::ORDER),
                Symbol::Gt => (Infix::Compare(Comparison::Gt), level::ORDER),
                Symbol::Ge => (Infix::Compare(Comparison::Ge), level::ORDER),
                _ => return None,
            },
            TokenKind::Word(Some(keyword)) => {
                let negated = *keyword == Keyword::Not;
                let operator = if negated { self.keyword_at(1)? } else { *keyword };
                match operator {
                    Keyword::And if !negated => (Infix::And, level::AND),
                    Keyword::Or if !negated => (Infix::Or, level::OR),
                    Keyword::Xor if !negated => (Infix::Plain(Binary::Xor), level::XOR),
                    Keyword::Is if !negated => (Infix::Is, is_level),
                    Keyword::RLike => (Infix::RLike { negated }, level::LIKE),
                    Keyword::Like => (Infix::Like { negated }, level::LIKE),
                    Keyword::In => (Infix::In { negated }, level::IN),
                    Keyword::Between => (Infix::Between { negated }, level::BETWEEN),
                    _ => return None,
                }
            }
            _ => return None,
        })
    }

    fn infix_expression(&mut self, left: Node, infix: Infix, level: u8) -> Parsed<Node> {
        let operator = self.span();
        if self.is_keyword(Keyword::Not) {
            self.advance();
        }
        self.advance();
        let start = left.span;
        let is_path = matches!(left.kind, NodeKind::Name(_) | NodeKind::Member(..) | NodeKind::Index(..));
        let is_compared = is_path && matches!(level, level::BETWEEN..=level::ORDER);
        let outer = std::mem::replace(&mut self.compared, is_compared.then_some(start));
        let (kind, end) = match infix {
            Infix::And | Infix::Or => {
                let (keyword, wrap): (_, fn(Vec<Node>) -> NodeKind) = if level == level::AND {
                    (Keyword::And, NodeKind::And)
                } else {
                    (Keyword::Or, NodeKind::Or)
                };
                let mut operands = vec![left];
                loop {
                    operands.push(self.expression_at(level + 1)?);
                    if !self.accept_keyword(keyword) {
                        break;
                    }
                }
                (wrap(operands), self.last_span())
            }
            Infix::Is => {
                let negated = self.accept_keyword(Keyword::Not);
                self.expect_keyword(Keyword::Null)?;
                (NodeKind::IsNull { operand: Box::new(left), negated }, self.last_span())
            }
            Infix::Between { negated } => {
                let bounds = Box::new(self.bounds()?);
                (NodeKind::Between { value: Box::new(left), bounds, negated }, self.last_span())
            }
            Infix::In { negated } => {
                if self.is_symbol(Symbol::LeftParen) {
                    self.advance();
                    if self.is_keyword(Keyword::Select) {
                        return Err(Fault::not_yet(self.span(), "a query within an expression"));
                    }
                    let list = self.operands(Symbol::RightParen)?;
                    (NodeKind::InList { value: Box::new(left), list, negated }, self.last_span())
                } else {
                    let right = self.expression_at(level + 1)?;
                    let end = right.span;
                    (NodeKind::Binary(Binary::In { negated }, Box::new(left), Box::new(right)), end)
                }
            }
            Infix::Like { negated } => {
                if self.dialect == Dialect::Bullet {
                    return Err(Fault::at(self.last_span(), "Bullet's dialect has no LIKE")
                        .hint("Write RLIKE with a regular expression."));
                }
                self.binary(Binary::Like { negated }, left, level)?
            }
            Infix::RLike { negated } => {
                let any = self.accept_keyword(Keyword::Any);
                self.binary(Binary::RLike { any, negated }, left, level)?
            }
            Infix::Compare(comparison) => {
                let quantifier = self.quantifier();
                self.binary(Binary::Compare(comparison, quantifier), left, level)?
            }
            Infix::Plain(Binary::Concat) if self.dialect == Dialect::Bullet => {
                return Err(
                    Fault::at(operator, "Bullet's dialect has no `||`").hint("Write OR for a logical or.")
                );
            }
            Infix::Plain(binary) => self.binary(binary, left, level)?,
        };
        self.compared = outer;
        self.node(kind, start.to(end))
    }

    fn binary(&mut self, operator: Binary, left: Node, level: u8) -> Parsed<(NodeKind, Span)> {
        let right = self.expression_at(level + 1)?;
        let end = right.span;
        Ok((NodeKind::Binary(operator, Box::new(left), Box::new(right)), end))
    }

    /// `ANY` or `ALL` behind a comparison; ALL is also a name, so what follows decides.
    fn quantifier(&mut self) -> Quantifier {
        if self.accept_keyword(Keyword::Any) {
            return Quantifier::Any;
        }
        let operand_follows = match self.kind_at(1) {
            TokenKind::Word(Some(Keyword::Limit | Keyword::Windowing | Keyword::Asc | Keyword::Desc)) => {
                false
            }
            TokenKind::Word(Some(Keyword::Sample | Keyword::End)) => false,
            TokenKind::Word(Some(keyword)) => {
                !keyword.is_reserved(self.dialect)
                    || BUILTINS.iter().any(|(name, _)| name == keyword)
                    || matches!(keyword, Keyword::Null | Keyword::True | Keyword::False | Keyword::Cast)
            }
            TokenKind::Symbol(symbol) => matches!(symbol, Symbol::LeftParen | Symbol::LeftBracket),
            TokenKind::End => false,
            _ => true,
        };
        if operand_follows && self.accept_keyword(Keyword::All) { Quantifier::All } else { Quantifier::One }
    }

    /// `(low, high)`, or (native) `low AND high`.
    fn bounds(&mut self) -> Parsed<[Node; 2]> {
        let in_parens =
            self.is_symbol(Symbol::LeftParen) && (self.dialect == Dialect::Bullet || self.comma_in_parens());
        if in_parens {
            self.advance();
            let low = self.expression()?;
            self.expect_symbol(Symbol::Comma)?;
            let high = self.expression()?;
            self.expect_symbol(Symbol::RightParen)?;
            return Ok([low, high]);
        }
        if self.dialect == Dialect::Bullet {
            return Err(self.expected("`(`").hint("Write `x BETWEEN (low, high)`."));
        }
        let low = self.expression_at(level::BETWEEN + 1)?;
        self.expect_keyword(Keyword::And)?;
        let high = self.expression_at(level::BETWEEN + 1)?;
        Ok([low, high])
    }

    /// True if the parenthesis here holds a comma of its own.
    fn comma_in_parens(&self) -> bool {
        let mut open = 0_usize;
        for token in &self.tokens[self.at..] {
            match token.kind {
                TokenKind::Symbol(Symbol::LeftParen | Symbol::LeftBracket) => open += 1,
                TokenKind::Symbol(Symbol::RightParen | Symbol::RightBracket) => {
                    open -= 1;
                    if open == 0 {
                        return false;
                    }
                }
                TokenKind::Symbol(Symbol::Comma) if open == 1 => return true,
                _ => {}
            }
        }
        false
    }

    // ---- operands

    /// An operand with the operators before it and the steps behind it.
    fn operand(&mut self, loosest: u8) -> Parsed<Node> {
        let start = self.span();
        match self.kind() {
            TokenKind::Word(Some(Keyword::Not)) => {
                if loosest > level::NOT && !self.dialect.not_binds_tightest() {
                    return Err(Fault::at(start, "NOT binds more loosely than the operator before it")
                        .hint("Write `(NOT …)`."));
                }
                self.advance();
                let operand = if self.dialect.not_binds_tightest() {
                    self.expression_at(level::UNARY)?
                } else {
                    self.expression_at(level::NOT)?
                };
                let end = operand.span;
                self.node(NodeKind::Unary(Unary::Not, Box::new(operand)), start.to(end))
            }
            TokenKind::Symbol(Symbol::Minus | Symbol::Plus) => self.signed(start),
            TokenKind::Word(Some(Keyword::SizeOf)) if self.symbol_at(1) != Some(Symbol::LeftParen) => {
                self.advance();
                let operand = self.expression_at(level::UNARY)?;
                let end = operand.span;
                self.node(NodeKind::Unary(Unary::SizeOf, Box::new(operand)), start.to(end))
            }
            TokenKind::Word(Some(keyword))
                if self.dialect == Dialect::Bullet
                    && self.symbol_at(1) != Some(Symbol::LeftParen)
                    && keyword.is_reserved(Dialect::Bullet)
                    && (*keyword == Keyword::Cast || BUILTINS.iter().any(|(name, _)| name == keyword)) =>
            {
                self.advance();
                Err(self.expected("`(`"))
            }
            _ => {
                let primary = self.primary()?;
                self.steps(primary)
            }
        }
    }

    /// `-5`, `+5`, and in the native dialect `-x`.
    fn signed(&mut self, start: Span) -> Parsed<Node> {
        let negative = self.is_symbol(Symbol::Minus);
        self.advance();
        if matches!(self.kind(), TokenKind::Whole { .. } | TokenKind::Double(_) | TokenKind::Float(_)) {
            return self.number(negative, start);
        }
        if self.dialect == Dialect::Bullet {
            return Err(self.expected("a number").hint("Only numbers have a sign; write `0 - x`."));
        }
        let operand = self.expression_at(level::UNARY)?;
        let span = start.to(operand.span);
        if negative { self.node(NodeKind::Unary(Unary::Minus, Box::new(operand)), span) } else { Ok(operand) }
    }

    fn number(&mut self, negative: bool, start: Span) -> Parsed<Node> {
        let span = start.to(self.span());
        let literal = match *self.kind() {
            TokenKind::Double(value) => Literal::Double(if negative { -value } else { value }),
            TokenKind::Float(value) => Literal::Float(if negative { -value } else { value }),
            TokenKind::Whole { value, long } => {
                // As Bullet has it, the sign comes after the choice of the type: -2147483648 is a LONG.
                let magnitude = i128::try_from(value).unwrap_or(i128::MAX);
                let value = if negative { -magnitude } else { magnitude };
                match (i32::try_from(magnitude), i64::try_from(value)) {
                    (Ok(magnitude), _) if !long => {
                        Literal::Integer(if negative { -magnitude } else { magnitude })
                    }
                    (_, Ok(value)) => Literal::Long(value),
                    _ if self.dialect == Dialect::Bullet => {
                        self.number_too_large("a number is out of the range of LONG".to_owned());
                        Literal::Long(0)
                    }
                    _ => {
                        return Err(Fault::at(span, "this number is out of the range of LONG")
                            .hint("Write it with a point for a DOUBLE."));
                    }
                }
            }
            _ => return Err(self.expected("a number")),
        };
        self.advance();
        self.node(NodeKind::Literal(literal), span)
    }

    fn literal(&mut self, literal: Literal) -> Parsed<Node> {
        let span = self.span();
        self.advance();
        self.node(NodeKind::Literal(literal), span)
    }

    fn primary(&mut self) -> Parsed<Node> {
        let start = self.span();
        if self.at_cursor() && self.kind_is_operand() {
            let compared = self.compared.map(|path| self.word(path).to_owned());
            self.cursor.expected = Some(Expected::Value { compared });
        }
        match self.kind().clone() {
            TokenKind::Whole { .. } | TokenKind::Double(_) | TokenKind::Float(_) => self.number(false, start),
            TokenKind::String(text) => self.literal(Literal::String(text)),
            TokenKind::Parameter(literal) => self.literal(literal),
            TokenKind::Symbol(Symbol::LeftParen) => {
                self.advance();
                if self.is_keyword(Keyword::Select) {
                    let start = if self.dialect == Dialect::Bullet { self.span() } else { start };
                    return Err(Fault::not_yet(start, "a query within an expression"));
                }
                let inner = self.expression()?;
                self.expect_symbol(Symbol::RightParen)?;
                self.node(NodeKind::Parens(Box::new(inner)), start.to(self.last_span()))
            }
            TokenKind::Symbol(Symbol::LeftBracket) => {
                self.advance();
                if self.accept_symbol(Symbol::RightBracket) {
                    return self.node(NodeKind::List(Vec::new()), start.to(self.last_span()));
                }
                let elements = self.operands(Symbol::RightBracket)?;
                self.node(NodeKind::List(elements), start.to(self.last_span()))
            }
            TokenKind::Word(Some(Keyword::Explode | Keyword::Outer)) if self.at_explode() => {
                Err(Fault::at(start, "EXPLODE returns rows, and cannot be part of an expression")
                    .hint("Write `LATERAL VIEW EXPLODE(…) AS x`, and use x."))
            }
            TokenKind::Quoted(_) | TokenKind::Word(_) if self.is_call() => self.call(start),
            TokenKind::Word(Some(Keyword::Null)) => self.literal(Literal::Null),
            TokenKind::Word(Some(Keyword::True)) => self.literal(Literal::Boolean(true)),
            TokenKind::Word(Some(Keyword::False)) => self.literal(Literal::Boolean(false)),
            TokenKind::Word(Some(Keyword::Now))
                if !matches!(self.symbol_at(1), Some(Symbol::Dot | Symbol::LeftBracket)) =>
            {
                self.advance();
                self.node(NodeKind::Now, start)
            }
            TokenKind::Word(Some(Keyword::Case)) if self.dialect == Dialect::Native => self.case(start),
            TokenKind::Quoted(_) | TokenKind::Word(_) => {
                let name = self.name("an expression")?;
                self.node(NodeKind::Name(name), start)
            }
            TokenKind::Symbol(Symbol::Star) => {
                Err(self.expected("an expression").hint("Write `*` alone in a select list, or in COUNT(*)."))
            }
            _ => Err(self.expected("an expression")),
        }
    }

    /// True if the token here may be a name, a function or text.
    fn kind_is_operand(&self) -> bool {
        matches!(self.kind(), TokenKind::Word(_) | TokenKind::Quoted(_) | TokenKind::String(_))
    }

    /// `.name` and `[index]` behind an operand, and a type hint behind those.
    fn steps(&mut self, mut base: Node) -> Parsed<Node> {
        let is_field = matches!(base.kind, NodeKind::Name(_));
        let may_step = is_field
            || (self.dialect == Dialect::Native
                && !matches!(base.kind, NodeKind::Literal(_) | NodeKind::Now));
        if !may_step {
            return Ok(base);
        }
        let start = base.span;
        let mut steps = 0;
        loop {
            if self.dialect == Dialect::Bullet
                && steps == 2
                && (self.is_symbol(Symbol::Dot) || self.is_symbol(Symbol::LeftBracket))
            {
                return Err(Fault::at(self.span(), "a path has at most three parts in Bullet's dialect"));
            }
            let kind = if self.accept_symbol(Symbol::Dot) {
                let name = self.member_name()?;
                NodeKind::Member(Box::new(base), name)
            } else if self.accept_symbol(Symbol::LeftBracket) {
                let index = self.expression()?;
                self.expect_symbol(Symbol::RightBracket)?;
                NodeKind::Index(Box::new(base), Box::new(index))
            } else {
                break;
            };
            steps += 1;
            let span = start.to(self.last_span());
            base = self.node(kind, span)?;
        }
        if (is_field || steps > 0) && self.accept_symbol(Symbol::Colon) {
            let ty = self.type_name()?;
            let span = start.to(self.last_span());
            base = self.node(NodeKind::Hint(Box::new(base), ty), span)?;
        }
        Ok(base)
    }

    /// The name behind a dot; in the native dialect any word can be one.
    fn member_name(&mut self) -> Parsed<Name> {
        self.note(Expected::Path);
        let span = self.span();
        if self.dialect == Dialect::Native && matches!(self.kind(), TokenKind::Word(_)) {
            let text = self.word(span).into();
            self.advance();
            return Ok(Name { text, quoted: false, span });
        }
        self.name("a name")
    }

    /// Operands up to the closing mark, at least one.
    pub(super) fn operands(&mut self, close: Symbol) -> Parsed<Vec<Node>> {
        let mut operands = vec![self.expression()?];
        while self.accept_symbol(Symbol::Comma) {
            operands.push(self.expression()?);
        }
        if self.accept_symbol(close) {
            Ok(operands)
        } else {
            Err(self.expected(&format!("`,` or `{}`", close.text())))
        }
    }
}

fn too_deep(span: Span) -> Fault {
    Fault::at(span, format!("this expression nests more than {DEPTH_MAX} levels deep"))
        .hint("Write it with fewer parentheses, or as several conditions with AND and OR.")
}
