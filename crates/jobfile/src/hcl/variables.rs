//! Variables: what a file declares, and the values that it is given.

use std::{collections::BTreeMap, rc::Rc};

use super::{
    error::{EvalError, EvalResult},
    evaluate::Evaluator,
    scope::{Frame, Scope},
    types::Type,
    value::{Members, Value},
};
use crate::{
    Inputs,
    diagnostic::{Diagnostics, quoted},
    inputs::{GivenFile, GivenText},
    json,
    limits::VARIABLES_MAX,
    report::{Position, Report},
    source::{self, Syntax},
    span::Span,
    suggest::nearest,
    syntax::{self, Block, Expression, Item, ItemKind},
};

/// A variable that a file declares.
#[derive(Debug)]
struct Variable<'i, 's> {
    span: Span,
    of: Type,
    /// Whether the type is written down.
    is_typed: bool,
    nullable: bool,
    default: Option<Value>,
    validations: Vec<&'i Block<'s>>,
}

type DeclaredVariables<'i, 's> = BTreeMap<&'i str, Variable<'i, 's>>;

/// The values of all variables that the blocks declare.
///
/// Mistakes of the file go to the evaluator's report; those of what is given from outside are returned, as they stand
/// in other files.
pub(super) fn values(
    evaluator: &Evaluator<'_>,
    items: &[Item<'_>],
    inputs: &Inputs,
) -> Result<Value, Diagnostics> {
    let declared = declared(evaluator, items);
    if !evaluator.report.is_sound() {
        return Ok(Value::object(Members::new()));
    }
    let given = given(&declared, inputs)?;
    let mut members = Members::new();
    for (name, variable) in &declared {
        match variable.value(evaluator, name, given.get(name)) {
            Ok(value) => drop(members.insert(Rc::from(*name), value)),
            Err(error) => error.report(evaluator.report),
        }
    }
    Ok(Value::object(members))
}

/// The texts of the environment that have a say: of variables that the blocks declare, and to which nothing that counts
/// for more gives a value. What is wrong with the file or its values is for [`values`] to report.
pub(super) fn from_environment(
    evaluator: &Evaluator<'_>,
    items: &[Item<'_>],
    inputs: &Inputs,
) -> BTreeMap<String, String> {
    let declared = declared(evaluator, items);
    let mut given = BTreeMap::new();
    if give_explicitly(&declared, inputs, &mut given).is_err() {
        return BTreeMap::new();
    }
    let counts = |text: &&GivenText| {
        let name = text.name.as_str();
        declared.contains_key(name) && !given.contains_key(name)
    };
    inputs.environment.iter().filter(counts).map(|text| (text.name.clone(), text.text.clone())).collect()
}

/// The variables that the blocks declare; mistakes go to the evaluator's report.
fn declared<'i, 's>(evaluator: &Evaluator<'_>, items: &'i [Item<'s>]) -> DeclaredVariables<'i, 's> {
    let mut declared = DeclaredVariables::new();
    for Item { key, kind } in items {
        let checked = match (&*key.text, kind) {
            ("variable", ItemKind::Block(block)) => declare(evaluator, block, &mut declared),
            ("variables", ItemKind::Block(block)) => declare_all(evaluator, block, &mut declared),
            _ => Ok(()),
        };
        checked.unwrap_or_else(|error| error.report(evaluator.report));
    }
    declared
}

/// `variable "name" { ... }`
fn declare<'i, 's>(
    evaluator: &Evaluator<'_>,
    block: &'i Block<'s>,
    declared: &mut DeclaredVariables<'i, 's>,
) -> EvalResult<()> {
    const HELP: &str = "a variable has type, default, description, sensitive, nullable and validation blocks";
    let Some(label) = block.labels.first() else {
        return Err(
            EvalError::at(block.span, "variable has no name").help("write `variable \"name\" { ... }`")
        );
    };
    let (of, default, nullable) = (Type::Any, None, true);
    let mut variable =
        Variable { span: label.span, of, is_typed: false, nullable, default, validations: Vec::new() };
    for Item { key, kind } in &block.items {
        match (&*key.text, kind) {
            ("type", ItemKind::Attribute(expression)) => {
                variable.of = Type::read(evaluator, expression)?;
                variable.is_typed = true;
            }
            ("default", ItemKind::Attribute(expression)) => {
                variable.default = Some(evaluator.value(expression, Scope::default())?);
            }
            ("nullable", ItemKind::Attribute(expression)) => {
                variable.nullable = evaluator.truth(expression, Scope::default())?;
            }
            ("description" | "sensitive", ItemKind::Attribute(expression)) => {
                evaluator.value(expression, Scope::default())?;
            }
            ("validation", ItemKind::Block(block)) => variable.validations.push(block),
            _ => {
                let message = format!("{} does not belong in a variable", quoted(&key.text));
                return Err(EvalError::at(key.span, message).help(HELP));
            }
        }
    }
    add(declared, &label.text, variable)
}

/// `variables { name = default ... }`
fn declare_all<'i, 's>(
    evaluator: &Evaluator<'_>,
    block: &'i Block<'s>,
    declared: &mut DeclaredVariables<'i, 's>,
) -> EvalResult<()> {
    for Item { key, kind } in &block.items {
        let ItemKind::Attribute(expression) = kind else {
            return Err(EvalError::at(key.span, "a `variables` block holds names with their defaults alone"));
        };
        let default = Some(evaluator.value(expression, Scope::default())?);
        let (span, of, validations) = (key.span, Type::Any, Vec::new());
        add(
            declared,
            &key.text,
            Variable { span, of, is_typed: false, nullable: true, default, validations },
        )?;
    }
    Ok(())
}

fn add<'i, 's>(
    declared: &mut DeclaredVariables<'i, 's>,
    name: &'i str,
    variable: Variable<'i, 's>,
) -> EvalResult<()> {
    let span = variable.span;
    if declared.len() == VARIABLES_MAX {
        return Err(EvalError::at(span, format!("more than {VARIABLES_MAX} variables")).limit());
    }
    match declared.insert(name, variable) {
        Some(_) => Err(EvalError::at(span, format!("variable {} is declared twice", quoted(name)))),
        None => Ok(()),
    }
}

impl Variable<'_, '_> {
    fn value(&self, evaluator: &Evaluator<'_>, name: &str, given: Option<&Value>) -> EvalResult<Value> {
        let missing = || {
            let help =
                format!("give it by `-var {name}=...`, in a file of variables, or as NOMAD_VAR_{name}");
            EvalError::at(self.span, format!("variable {} has no value", quoted(name))).help(help)
        };
        let value = given.or(self.default.as_ref()).ok_or_else(missing)?;
        let wrong = |wrong: String| EvalError::at(self.span, format!("variable {} {wrong}", quoted(name)));
        let value = self.of.convert(value).map_err(wrong)?;
        if value == Value::Null && !self.nullable {
            return Err(EvalError::at(self.span, format!("variable {} may not be null", quoted(name))));
        }
        let value = evaluator.bounded(value, self.span)?;
        let var = Value::object(Members::from([(Rc::from(name), value.clone())]));
        let frame = Frame::new("var", var, Scope::default());
        self.validations.iter().try_for_each(|block| validate(evaluator, block, name, frame.scope()))?;
        Ok(value)
    }

    /// How text stands for a value: as itself, or as an expression.
    fn text_is_itself(&self) -> bool {
        let of_default = self.default.as_ref().map(Type::of).unwrap_or(Type::Text);
        matches!(if self.is_typed { &self.of } else { &of_default }, Type::Text)
    }
}

/// Reports a value for which the condition of a `validation` block does not hold.
fn validate(evaluator: &Evaluator<'_>, block: &Block<'_>, name: &str, scope: Scope<'_>) -> EvalResult<()> {
    let attribute = |wanted: &str| {
        block.items.iter().find_map(|Item { key, kind }| match kind {
            ItemKind::Attribute(expression) if key.text == wanted => Some(expression),
            _ => None,
        })
    };
    let missing = |what: &str| EvalError::at(block.span, format!("validation has no `{what}`"));
    let condition = attribute("condition").ok_or_else(|| missing("condition"))?;
    let text = attribute("error_message").ok_or_else(|| missing("error_message"))?;
    if evaluator.truth(condition, scope)? {
        return Ok(());
    }
    let text = evaluator.value(text, scope)?;
    let text = text.to_text().unwrap_or_default();
    Err(EvalError::at(condition.span, format!("variable {} is not valid: {text}", quoted(name))))
}

/// The values that are given from outside, by name.
fn given<'d>(
    declared: &DeclaredVariables<'d, '_>,
    inputs: &Inputs,
) -> Result<BTreeMap<&'d str, Value>, Diagnostics> {
    let mut given = BTreeMap::new();
    for text in &inputs.environment {
        // The environment may hold variables of other job files.
        if let Some((name, variable)) = declared.get_key_value(text.name.as_str()) {
            given.insert(*name, text.read(variable)?);
        }
    }
    give_explicitly(declared, inputs, &mut given)?;
    Ok(given)
}

/// Adds the values of files and of the command line.
fn give_explicitly<'d>(
    declared: &DeclaredVariables<'d, '_>,
    inputs: &Inputs,
    given: &mut BTreeMap<&'d str, Value>,
) -> Result<(), Diagnostics> {
    for file in &inputs.files {
        file.read(declared, inputs.ignores_undeclared, given)?;
    }
    for text in &inputs.values {
        match declared.get_key_value(text.name.as_str()) {
            Some((name, variable)) => drop(given.insert(*name, text.read(variable)?)),
            None if inputs.ignores_undeclared => {}
            None => {
                let report = Report::new(&text.origin, "");
                let error = undeclared(&text.name, declared, Span::default());
                report.note(Position::File, error.message, error.help);
                return Err(report.into_errors());
            }
        }
    }
    Ok(())
}

fn undeclared(name: &str, declared: &DeclaredVariables<'_, '_>, span: Span) -> EvalError {
    let error = EvalError::at(span, format!("the job file declares no variable {}", quoted(name)));
    match nearest(name, declared.keys().copied()) {
        Some(near) => error.help(format!("did you mean `{near}`?")),
        None => error.help(format!("write `variable \"{name}\" {{}}` in it")),
    }
}

impl GivenText {
    fn read(&self, variable: &Variable<'_, '_>) -> Result<Value, Diagnostics> {
        if variable.text_is_itself() {
            return Ok(Value::text(self.text.as_str()));
        }
        let report = Report::new(&self.origin, source::checked(self.text.as_bytes(), &self.origin)?);
        let expression = syntax::expression(&self.text, &report);
        let value = expression.and_then(|expression| literal(&expression, &report));
        value.ok_or_else(|| report.into_errors())
    }
}

impl GivenFile {
    fn read<'d>(
        &self,
        declared: &DeclaredVariables<'d, '_>,
        ignores_undeclared: bool,
        given: &mut BTreeMap<&'d str, Value>,
    ) -> Result<(), Diagnostics> {
        let text = source::checked(&self.source, &self.name)?;
        let report = Report::new(&self.name, text);
        let mut put = |name: &str, span: Span, value: Option<Value>| match declared.get_key_value(name) {
            Some((name, _)) => drop(value.map(|value| given.insert(*name, value))),
            None if ignores_undeclared => {}
            None => undeclared(name, declared, span).report(&report),
        };
        match source::syntax_of(text, &self.name) {
            Syntax::Json => {
                let document = json::read::document(text, &report);
                match Value::of_tree(&document.tree) {
                    Value::Object(object) => {
                        for (name, value) in &object.inner {
                            put(name, Span::default(), Some(value.clone()));
                        }
                    }
                    _ => report.error(Span::default(), "a file of variables must be an object"),
                }
            }
            Syntax::Hcl => {
                for Item { key, kind } in syntax::parse(text, &report) {
                    match kind {
                        ItemKind::Attribute(expression) => {
                            put(&key.text, key.span, literal(&expression, &report));
                        }
                        ItemKind::Block(_) => {
                            report.error(key.span, "a file of variables holds names with their values alone");
                        }
                    }
                }
            }
        }
        report.checked().map(drop)
    }
}

/// The value of an expression that stands outside of the job file, and so knows nothing of it; none, and a mistake in
/// the report, if it has none.
fn literal(expression: &Expression<'_>, report: &Report<'_>) -> Option<Value> {
    let value = Evaluator::new(report, None).value(expression, Scope::default());
    value.map_err(|error| error.report(report)).ok()
}
