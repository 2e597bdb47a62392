job "web" {
  datacenters = var.datacenters
  priority    = 40 + [10]
  group "app" {
    count = "few" ? 1 : 2
    task "server" {
      driver = "custom"
      user   = nobody
      config {
        image   = "nginx:${var.tag}"
        command = uper("sh")
        args    = [for a in 3 : a]
        data    = file("a.txt").name
        text    = "%{ if attr.x }yes%{ endif }"
        trimmed = upper(node.class)
        not     = !3
        nested  = "x${[1]}"
        index   = ["a"][1]
        members = { a = 1 / 0, (null) = 2 }
      }
    }
  }
}
