job "web" {
  group "app" {
    task "main" {
      driver = "raw_exec"
      config { command = "sleep" }

      identity {
        name     = "not plain"
        aud      = ["vault", ""]
        ttl      = "3s"
        file     = true
        filepath = "local/token"
      }
      identity {
        name          = "signal"
        change_mode   = "signal"
        file          = true
        filepath      = "secrets/a/../b"
        ttl           = "48h"
      }
      identity {
        name          = "other"
        change_mode   = "signal"
        change_signal = "SIGHUB"
        filepath      = "secrets/./x"
      }
      identity {
        name     = "one"
        file     = true
        filepath = "secrets/same"
      }
      identity {
        name     = "two"
        file     = true
        filepath = "secrets/same"
      }
      identity {
        name     = "two"
        filepath = "secrets/dir/"
      }
    }
  }
}
