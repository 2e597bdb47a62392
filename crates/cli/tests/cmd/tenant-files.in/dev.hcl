name   = "dev"
wieght = 2
