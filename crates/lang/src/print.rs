//! Prints plans as text: an expression prints in the native dialect, so that parsing it returns the same plan.
//!
//! Some expressions have no text in the language and print as what they are. These are slots (`#n`), UNIXTIMESTAMP
//! without operands (only Bullet's dialect has it), and numbers that are not finite.

use std::fmt::{self, Display, Write};

use swiftwater_event::{Path, Step, Type};

use crate::{
    keyword::Keyword,
    lexer::is_word,
    names::comparison_text,
    numbers,
    parser::level,
    plan::{Expr, Function, Literal, Quantifier},
};

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_expr(f, self, level::ANY)
    }
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Literal::Null => f.write_str("NULL"),
            Literal::Boolean(value) => write!(f, "{value}"),
            Literal::Integer(value) => write!(f, "{value}"),
            Literal::Long(value) => write!(f, "{value}L"),
            Literal::Float(value) => write!(f, "{}f", numbers::float(*value)),
            Literal::Double(value) => f.write_str(&numbers::double(*value)),
            Literal::String(text) => write_quoted(f, text, '\''),
        }
    }
}

fn write_quoted(f: &mut fmt::Formatter<'_>, text: &str, quote: char) -> fmt::Result {
    f.write_char(quote)?;
    for c in text.chars() {
        if c == quote {
            f.write_char(quote)?;
        }
        f.write_char(c)?;
    }
    f.write_char(quote)
}

/// Writes an expression where operators must bind at least as tightly as `loosest`.
fn write_expr(f: &mut fmt::Formatter<'_>, expr: &Expr, loosest: u8) -> fmt::Result {
    match expr {
        Expr::Literal(literal) => literal.fmt(f),
        Expr::Path { path, ty } => write_path(f, path, ty),
        Expr::Slot(place) => write!(f, "#{place}"),
        Expr::Call { function, args } => {
            let level = level_of(function);
            if level < loosest && *function == (Function::Between { negated: false }) {
                // Not in parentheses, which would make a list of it behind IN.
                return write_list(f, "BETWEEN(", args, ")");
            }
            if level < loosest {
                f.write_str("(")?;
            }
            write_call(f, function, args, level)?;
            if level < loosest {
                f.write_str(")")?;
            }
            Ok(())
        }
    }
}

/// The precedence level of a function's printed form.
fn level_of(function: &Function) -> u8 {
    match function {
        Function::Or => level::OR,
        Function::Xor => level::XOR,
        Function::And => level::AND,
        Function::Not => level::NOT,
        Function::IsNull | Function::IsNotNull => level::IS,
        Function::Between { .. } => level::BETWEEN,
        Function::In { .. } => level::IN,
        Function::RLike { .. } | Function::Like { .. } => level::LIKE,
        Function::Compare(comparison, _) => match comparison_text(*comparison) {
            "=" | "!=" => level::EQUALITY,
            _ => level::ORDER,
        },
        Function::Concat => level::CONCAT,
        Function::Add | Function::Subtract => level::SUM,
        Function::Multiply | Function::Divide | Function::Remainder => level::PRODUCT,
        _ => level::UNARY,
    }
}

fn write_call(f: &mut fmt::Formatter<'_>, function: &Function, args: &[Expr], level: u8) -> fmt::Result {
    let not = |negated: &bool| if *negated { "NOT " } else { "" };
    match (function, args) {
        (Function::And, args) => write_joined(f, args, " AND ", level + 1),
        (Function::Or, args) => write_joined(f, args, " OR ", level + 1),
        (Function::Not, [operand]) => {
            f.write_str("NOT ")?;
            write_expr(f, operand, level)
        }
        (Function::IsNull, [operand]) => {
            write_expr(f, operand, level)?;
            f.write_str(" IS NULL")
        }
        (Function::IsNotNull, [operand]) => {
            write_expr(f, operand, level)?;
            f.write_str(" IS NOT NULL")
        }
        (Function::Between { negated }, [value, low, high]) => {
            write_expr(f, value, level)?;
            write!(f, " {}BETWEEN (", not(negated))?;
            write_expr(f, low, level::ANY)?;
            f.write_str(", ")?;
            write_expr(f, high, level::ANY)?;
            f.write_str(")")
        }
        (Function::In { negated }, [value, list]) => {
            write_expr(f, value, level)?;
            write!(f, " {}IN ", not(negated))?;
            match list {
                Expr::Call { function: Function::List, args } => write_list(f, "(", args, ")"),
                // One that binds more loosely goes into parentheses, and then reads as a list of one element. No text
                // gives such a plan, but a column's name may stand for it.
                other => write_expr(f, other, level + 1),
            }
        }
        (Function::Compare(comparison, quantifier), [left, right]) => {
            let quantifier = match quantifier {
                Quantifier::One => "",
                Quantifier::Any => " ANY",
                Quantifier::All => " ALL",
            };
            let operator = format!("{}{quantifier}", comparison_text(*comparison));
            // ALL before an operand like -5 would be the field `ALL`, less 5.
            let plain = quantifier.is_empty() || matches!(right, Expr::Path { .. }) || is_list(right);
            if plain {
                return write_binary(f, left, &operator, right, level);
            }
            write_expr(f, left, level)?;
            write!(f, " {operator} ({right})")
        }
        (Function::MatchesText(comparison), [left, right]) => {
            write!(f, "({left} {} TEXT {right})", comparison_text(*comparison))
        }
        (Function::RLike { any, negated }, [left, right]) => {
            let operator = format!("{}RLIKE{}", not(negated), if *any { " ANY" } else { "" });
            write_binary(f, left, &operator, right, level)
        }
        (Function::Like { negated }, [left, right]) => {
            write_binary(f, left, &format!("{}LIKE", not(negated)), right, level)
        }
        (Function::Element, [base, step]) => write_element(f, base, step),
        (Function::List, elements) => write_list(f, "[", elements, "]"),
        (Function::Cast(ty), [operand]) => {
            f.write_str("CAST(")?;
            write_expr(f, operand, level::ANY)?;
            write!(f, " AS {ty})")
        }
        (Function::Case, args) => write_case(f, args),
        (Function::Search, [Expr::Path { path, .. }, query]) if path.is_event() => {
            write!(f, "SEARCH({query})")
        }
        (function, [left, right]) if operator_text(function).is_some() => {
            write_binary(f, left, operator_text(function).unwrap_or_default(), right, level)
        }
        (function, args) => {
            f.write_str(function_name(function))?;
            write_list(f, "(", args, ")")
        }
    }
}

fn is_list(expr: &Expr) -> bool {
    matches!(expr, Expr::Call { function: Function::List, .. })
}

fn write_binary(
    f: &mut fmt::Formatter<'_>,
    left: &Expr,
    operator: &str,
    right: &Expr,
    level: u8,
) -> fmt::Result {
    write_expr(f, left, level)?;
    write!(f, " {operator} ")?;
    write_expr(f, right, level + 1)
}

fn write_joined(f: &mut fmt::Formatter<'_>, args: &[Expr], between: &str, level: u8) -> fmt::Result {
    for (at, arg) in args.iter().enumerate() {
        if at > 0 {
            f.write_str(between)?;
        }
        write_expr(f, arg, level)?;
    }
    Ok(())
}

fn write_list(f: &mut fmt::Formatter<'_>, open: &str, args: &[Expr], close: &str) -> fmt::Result {
    f.write_str(open)?;
    write_joined(f, args, ", ", level::ANY)?;
    f.write_str(close)
}

fn write_case(f: &mut fmt::Formatter<'_>, args: &[Expr]) -> fmt::Result {
    f.write_str("CASE")?;
    let arms = args.chunks_exact(2);
    let otherwise = arms.remainder().first();
    for arm in arms {
        write!(f, " WHEN {} THEN {}", arm[0], arm[1])?;
    }
    if let Some(otherwise) = otherwise {
        write!(f, " ELSE {otherwise}")?;
    }
    f.write_str(" END")
}

// ---- paths

/// A path, and its type as the hint for its first name that gives it.
fn write_path(f: &mut fmt::Formatter<'_>, path: &Path, ty: &Type) -> fmt::Result {
    write_steps(f, path)?;
    write_hint(f, path, ty)
}

fn write_steps(f: &mut fmt::Formatter<'_>, path: &Path) -> fmt::Result {
    for (at, step) in path.steps().iter().enumerate() {
        match step {
            // Any word of the language is quoted: some that are not reserved have a meaning in places.
            Step::Key(key) if at == 0 && is_word(key) && Keyword::of(key).is_none() => {
                f.write_str(key)?;
            }
            Step::Key(key) if at == 0 => write_quoted(f, key, '"')?,
            Step::Key(key) if is_word(key) => write!(f, ".{key}")?,
            Step::Key(key) => {
                f.write_str("[")?;
                write_quoted(f, key, '\'')?;
                f.write_str("]")?;
            }
            Step::Index(place) => write!(f, "[{place}]")?,
        }
    }
    Ok(())
}

fn write_hint(f: &mut fmt::Formatter<'_>, path: &Path, ty: &Type) -> fmt::Result {
    if *ty == Type::Any {
        return Ok(());
    }
    let steps = &path.steps()[1..];
    let root = steps.iter().rev().fold(ty.clone(), |inner, step| match step {
        Step::Key(_) => Type::Map(Box::new(inner)),
        Step::Index(_) => Type::List(Box::new(inner)),
    });
    write!(f, " : {root}")
}

/// `base[step]`; a hint stands behind all steps and is about the first name.
fn write_element(f: &mut fmt::Formatter<'_>, base: &Expr, step: &Expr) -> fmt::Result {
    let mut steps = vec![step];
    let mut root = base;
    while let Expr::Call { function: Function::Element, args } = root
        && let [inner, step] = &args[..]
    {
        steps.push(step);
        root = inner;
    }
    match root {
        Expr::Path { path, .. } => write_steps(f, path)?,
        Expr::Slot(place) => write!(f, "#{place}")?,
        literal @ Expr::Literal(_) => write!(f, "({literal})")?,
        other => write_expr(f, other, level::UNARY)?,
    }
    for step in steps.iter().rev() {
        write!(f, "[{step}]")?;
    }
    match root {
        Expr::Path { path, ty } => write_hint(f, path, ty),
        _ => Ok(()),
    }
}

// ---- names

fn operator_text(function: &Function) -> Option<&'static str> {
    Some(match function {
        Function::Add => "+",
        Function::Subtract => "-",
        Function::Multiply => "*",
        Function::Divide => "/",
        Function::Remainder => "%",
        Function::Concat => "||",
        Function::Xor => "XOR",
        _ => return None,
    })
}

fn function_name(function: &Function) -> &'static str {
    match function {
        Function::SizeIs => "SIZEIS",
        Function::SizeOf => "SIZEOF",
        Function::ContainsKey => "CONTAINSKEY",
        Function::ContainsValue => "CONTAINSVALUE",
        Function::Filter => "FILTER",
        Function::If => "IF",
        Function::Coalesce => "COALESCE",
        Function::Search => "SEARCH",
        Function::Abs => "ABS",
        Function::Trim => "TRIM",
        Function::Lower => "LOWER",
        Function::Upper => "UPPER",
        Function::Substring => "SUBSTRING",
        Function::UnixTimestamp => "UNIXTIMESTAMP",
        Function::Arrival => "ARRIVAL",
        Function::Hash => "HASH",
        // Operators with a number of operands that no text gives them.
        _ => "?",
    }
}
