//! Job files in their usual layout.

use std::{fs, path::PathBuf};

use berth_jobfile::{Inputs, STARTERS, format, parse_hcl};
use expect_test::{Expect, expect};

fn check(source: &str, expected: Expect) {
    let formatted = format(source, "x.hcl").unwrap_or_else(|e| panic!("{e}"));
    expected.assert_eq(&formatted);
    assert_eq!(format(&formatted, "x.hcl").as_ref(), Ok(&formatted), "the layout is no fixed point");
}

#[test]
fn levels_columns_and_blanks() {
    check(
        r#"


job   "web"{
datacenters=["a","b" , "c"]
  type="service" # the type
priority =  50 //   more is more
   # alone
      meta={a=1,b = 2}


   group "app" {
     count=var.count>1?var.count*-1:- 2
     meta   {
       long_name="x"
       s="${ var.x }  y"
     }
     task "t" { driver="raw_exec" }
     env = merge( {
       A = "1"
       LONG = upper( "x" )
     } , local.env["x"] )
     args = { for a in [1,2] :a=>max( [a]... )... }
     names=var.list[*].name
     empty={}
     data=<<-END
         kept   as it is
       END
     after = !true&&(1+2 )!=3
   }
}
"#,
        expect![[r#"
            job "web" {
              datacenters = ["a", "b", "c"]
              type        = "service" # the type
              priority    = 50        //   more is more
              # alone
              meta = { a = 1, b = 2 }

              group "app" {
                count = var.count > 1 ? var.count * -1 : -2
                meta {
                  long_name = "x"
                  s         = "${ var.x }  y"
                }
                task "t" { driver = "raw_exec" }
                env = merge({
                  A    = "1"
                  LONG = upper("x")
                }, local.env["x"])
                args  = { for a in [1, 2] : a => max([a]...)... }
                names = var.list[*].name
                empty = {}
                data = <<-END
                     kept   as it is
                   END
                after = !true && (1 + 2) != 3
              }
            }
        "#]],
    );
}

#[test]
fn comments_stay_where_they_are() {
    check(
        "# first\n\n\n\n# second\njob \"x\" { # open\n/* two\n   lines */ a = 1 /* behind */ # last\nlong_name = 2 # other\n}\n# end",
        expect![[r##"
            # first

            # second
            job "x" { # open
              /* two
               lines */ a = 1 /* behind */ # last
              long_name = 2 # other
            }
            # end
        "##]],
    );
}

#[test]
fn broken_files_are_not_touched() {
    let mistakes = format("job \"x\" {\n  a = \n}", "x.hcl").expect_err("broken").to_string();
    assert!(mistakes.contains("expected a value"), "{mistakes}");
}

/// Every job file of the tests, the examples and the starters.
fn all() -> Vec<(String, String)> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let folders = [root.join("tests/good"), root.join("../../examples"), root.join("../../../shared/jobs")];
    let files = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    let files = files.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e == "hcl"));
    let read = |path: PathBuf| (path.display().to_string(), fs::read_to_string(path).expect("a job file"));
    let starters = STARTERS.iter().map(|starter| (starter.name.to_owned(), starter.source.to_owned()));
    files.map(read).chain(starters).collect()
}

#[test]
fn a_new_layout_changes_no_job() {
    for (name, source) in all() {
        let formatted = format(&source, &name).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(format(&formatted, &name).as_ref(), Ok(&formatted), "{name}");
        let job = |source: &str| parse_hcl(source, &name, &Inputs::default()).map(|parsed| parsed.job);
        assert_eq!(job(&formatted), job(&source), "{name}");
    }
}

#[test]
fn starters_and_examples_are_in_their_usual_layout_and_sound() {
    for (name, source) in all().into_iter().filter(|(name, _)| !name.contains("tests/good")) {
        assert_eq!(format(&source, &name), Ok(source.clone()), "{name}");
        if let Err(mistakes) = parse_hcl(&source, &name, &Inputs::default()) {
            panic!("{mistakes}");
        }
    }
    for starter in STARTERS {
        let short = starter.short();
        assert!(!short.contains('#') && short.len() < starter.source.len(), "{short}");
        parse_hcl(&short, starter.name, &Inputs::default()).unwrap_or_else(|e| panic!("{e}"));
    }
}
