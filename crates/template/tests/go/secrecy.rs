//! What a template computes may be secret, and errors are shown to whoever may see the task: none quotes any of it.

use berth_template::{RenderOptions, function_names};

use super::world::{World, parse};

/// Each of them is refused by some functions: as a number, a format, a regular expression, a path, a form.
const MARKERS: [&str; 9] = [
    "73317331733173317331733",
    "-7331",
    "%7331733173d",
    "%.7331733173d",
    "%7331*",
    "(7331",
    "p@7331.x",
    "{7331",
    "7331-7331!",
];

#[test]
fn no_error_quotes_a_value() {
    let secret = "(nomadVar \"secret\").s";
    // As text, as a number, and among others.
    let arguments = [
        format!("({secret})"),
        format!("({secret} | len | add 7000)"),
        format!("(split \",\" {secret})"),
        "1".to_owned(),
        "\"a\"".to_owned(),
        "(parseJSON `{}`)".to_owned(),
    ];
    let mut lists: Vec<String> = vec![String::new()];
    for count in 0..3 {
        let shorter = lists.clone();
        let longest = shorter.iter().filter(|list| list.matches(" #").count() == count);
        lists.extend(longest.flat_map(|list| arguments.iter().map(move |one| format!("{list} #{one}"))));
    }
    let mut errors = 0;
    for name in function_names() {
        for list in &lists {
            let Ok(template) = parse(&format!("{{{{ {name}{} }}}}", list.replace('#', ""))) else { continue };
            for marker in MARKERS {
                let mut world = World::default();
                world.variables.insert("secret", vec![("s", marker)]);
                let strict = RenderOptions { error_on_missing_key: true };
                let Err(error) = template.render(&world, strict) else { continue };
                errors += 1;
                let message = error.message.replace("limits", "");
                assert!(
                    !message.contains("733") && !message.contains(marker),
                    "{name}{list} of {marker:?}: {message}"
                );
                assert!(!message.contains("70"), "{name}{list} of {marker:?}: {message}");
            }
        }
    }
    assert!(errors > 10_000, "{errors}: what fails is what says something");
}

#[test]
fn names_that_are_computed_are_not_quoted_either() {
    for template in [
        "{{ index (parseJSON `{}`) (nomadVar \"secret\").s }}",
        "{{ with (nomadVar \"secret\").s }}{{ .none }}{{ end }}",
        "{{ range (nomadVar \"secret\").s }}{{ end }}",
        "{{ index (nomadVar \"secret\") (nomadVar \"secret\").s }}",
    ] {
        let mut world = World::default();
        world.variables.insert("secret", vec![("s", "marker7331")]);
        let strict = RenderOptions { error_on_missing_key: true };
        if let Err(error) = parse(template).expect("read").render(&world, strict) {
            assert!(!error.message.contains("7331"), "{template}: {error}");
        }
    }
}
