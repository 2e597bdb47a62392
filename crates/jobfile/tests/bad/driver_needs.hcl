job "web" {
  group "app" {
    network {
      port "http" {}
    }
    ephemeral_disk {
      size = 20
    }
    task "nothing" {
      driver = "docker"
      config {}
    }
    task "empty" {
      driver = "exec"
      config {
        args     = ["1"]
        work_dir = "here"
      }
    }
    task "server" {
      driver = "container"
      config {
        image       = ""
        ports       = ["http", "htpp", "${NOMAD_META_port}"]
        hostname    = "my_host"
        force_pull  = true
        pull_policy = "never"
        work_dir    = "srv"
        mount {
          type   = "tmpfs"
          target = "/cache"
          tmpfs_options {
            size = 0
            mode = 8192
          }
        }
      }
      logs {
        max_files     = 4
        max_file_size = 5
      }
    }
    task "talks" {
      driver = "raw_exec"
      config {
        command = "true"
      }
    }
    task "quiet" {
      driver = "raw_exec"
      config {
        command = "true"
      }
      logs {
        disabled = true
      }
    }
  }
  task "alone" {
    driver = "raw_exec"
    config {
      command = "true"
    }
    logs {
      max_files     = 100
      max_file_size = 3
    }
  }
}
