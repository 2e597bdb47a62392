job "web" {
  meta {
    a = [for x in [1] : x => 1]
    b = {for x in [1] : x}
    c = [for in [1] : x]
    d = a[*][*][*][*][*][*][*][*][*]
  }
}
