job "web" {
  meta {
    a = "%{ if true }x"
    b = "x%{ endif }"
    c = "%{ for x in [1] }x"
    d = "%{ while true }"
    e = "${1 + }"
  }
}
