job "web" {
  group "app" {
    task "server" {
      driver = "exec"
      config {
        command = "sleep"
      }
      template {
        data        = <<-END
          port {{ env "NOMAD_PORT_http" }}
          {{ key "app/config" }}
        END
        destination = "local/consul"
      }
      template {
        data            = "[[ if true ]]"
        destination     = "local/open"
        left_delimiter  = "[["
        right_delimiter = "]]"
      }
      template {
        data          = "A={{ nope }}"
        destination   = "../alloc/../secrets/env"
        env           = true
        change_mode   = "signal"
        change_signal = "SIGHUPP"
        perms         = "4755"
      }
      template {
        source      = "../etc/passwd"
        destination = "../alloc/data/fine"
      }
    }
  }
}
