job "web" {
  datacenters = var.datacenters
  priority    = 40 + 10
  group "app" {
    count = true ? 1 : 2
    task "server" {
      driver = "container"
      user   = nobody
      config {
        image   = "nginx:${var.tag}"
        command = upper("sh")
        args    = [for a in ["x"] : a]
        data    = file("a.txt").name
        text    = "%{ if true }yes%{ endif }"
        trimmed = "${~ node.class }"
        not     = !true
        nested  = "${[1]}"
      }
    }
  }
}
