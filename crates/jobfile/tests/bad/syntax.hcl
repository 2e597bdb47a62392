job "web" {
  region "global"
  priority == 50
  meta = { a = 1 b = 2 }
  group "app" { count = 1, all_at_once = true }
  datacenters = ["a" "b"]
  group "x" {
    task "server" {
      driver = "a\qb"
      user = @
      leader =
    }
  }
}
}
