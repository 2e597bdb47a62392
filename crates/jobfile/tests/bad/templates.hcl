job "web" {
  task "server" {
    driver = "container"
    template {
      data        = "x"
      source      = "y"
      destination = "../etc/passwd"
    }
    template {
      destination = "local/x"
    }
    template {
      data        = "x"
      change_mode = "signal"
      perms       = "rw-r--r--"
    }
    template {
      data        = "x"
      destination = "local/y"
      change_mode = "script"
      wait {
        min = "10s"
        max = "1s"
      }
    }
    artifact {
      destination = "local/../../x"
      mode        = "folder"
    }
  }
}
