job "strings" {
  /* comments // of
     every # kind */
  task "t" {
    driver = "custom" # the driver
    env = {
      "QUOTED KEY" : "a\tb\n\"c\" \\ \u00e9 \U0001F600", // JSON's way
      COMMA = "x",
      LAST  = "${ node.unique.id }-${attr.unique.hostname}"
      NUMBER = -3
      FLOAT = 1.50
      LARGE = 12345678901
      SPLAT = "${meta.list[*].name[0].x.1}"
    }
    config {
      plain = <<END
first ${NOMAD_TASK_NAME}
    second \n $${kept}
END
      indented = <<-SCRIPT
        #!/bin/sh
          echo "$HOME" 100%

        ENDING is not the end
        SCRIPT
      list = [
        "a", # one
        <<-ONE
          x
        ONE
        ,
        [true, null, 2.5e3],
      ]
      object = {
        nested = { deep = [{ a = 1 }] }
      }
      empty = {}
      one_line { a = 1 }
    }
  }
}
