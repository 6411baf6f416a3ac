module kova-example

go 1.19
