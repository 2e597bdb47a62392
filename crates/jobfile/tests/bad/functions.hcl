job "web" {
  task "server" {
    driver = "custom"
    config {
      a = uper("x")
      b = join(",")
      c = join(",", 1)
      d = element([], 0)
      e = jsondecode("{")
      f = base64decode("?")
      g = formatdate("YYYY", "now")
      h = uuidv4()
      i = cidrhost("10.0.0.0/33", 1)
      j = file("secret.txt")
      k = range(1e9)
      l = try()
      m = max("a"...)
      n = convert("x", number)
    }
  }
}
