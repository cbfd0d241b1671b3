from carnot.alias import main

main()
