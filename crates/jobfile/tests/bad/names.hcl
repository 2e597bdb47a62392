job "my job" {
  namespace = "team/a"
  group "../etc" {
    task "a/b" {
      driver = "container"
    }
    task "" {
      driver = "container"
    }
    task ".." {
      driver = "container"
    }
    task "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" {
      driver = "container"
    }
    task "tab\there" {
      driver = "container"
    }
  }
  group {
    task "x" "y" {
      driver = "container"
    }
  }
}
