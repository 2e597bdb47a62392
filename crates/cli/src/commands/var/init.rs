//! `berth var init`: writes an example file of a variable.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use crate::{failure::Failure, output, source};

/// Arguments of `var init`.
#[derive(Debug, Args)]
pub struct VarInitArgs {
    /// File to write, which must not exist yet; defaults to `spec.nsv.hcl` or `spec.nsv.json`
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: Option<PathBuf>,
    /// Output format
    #[arg(long, short, value_name = "hcl|json", value_parser = ["hcl", "json"], default_value = "hcl")]
    out: String,
}

const HCL: &str = "# Write it with: berth var put @spec.nsv.hcl\n\
                   # Names and values have at most 64 KiB together; a path has letters, digits, `-`, `_`, `~` and `/`.\n\
                   path = \"path/to/variable\"\n\n\
                   items = {\n  name1 = \"value 1\"\n  name2 = \"value 2\"\n}\n";
const JSON: &str = "{\n  \"Path\": \"path/to/variable\",\n  \"Items\": {\n    \"name1\": \"value 1\",\n    \"name2\": \"value 2\"\n  }\n}\n";

impl VarInitArgs {
    /// Writes it.
    pub fn run(&self) -> Result<(), Failure> {
        let text = if self.out == "json" { JSON } else { HCL };
        let path = self.file.clone().unwrap_or_else(|| format!("spec.nsv.{}", self.out).into());
        // Secrets will be written to it.
        source::create(&path, 0o600, text)?;
        output::eprint_line(&format!(
            "{} is written; next: berth var put @{}",
            path.display(),
            path.display()
        ));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_describe_the_same_variable() {
        let [hcl, json] = [HCL, JSON]
            .map(|text| berth_jobfile::parse_variable(text.as_bytes(), "file").expect("it is right"));
        assert_eq!(hcl, json);
        assert_eq!(hcl["Items"]["name2"], "value 2");
    }
}
