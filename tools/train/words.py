"""The fixed facts and word lists that the training corpus draws from."""

CAPITALS = {
    "France": "Paris", "Spain": "Madrid", "Italy": "Rome", "Germany": "Berlin", "Portugal": "Lisbon",
    "Austria": "Vienna", "Greece": "Athens", "Norway": "Oslo", "Sweden": "Stockholm", "Finland": "Helsinki",
    "Denmark": "Copenhagen", "Poland": "Warsaw", "Hungary": "Budapest", "Ireland": "Dublin", "Belgium": "Brussels",
    "Switzerland": "Bern", "Russia": "Moscow", "Ukraine": "Kyiv", "Turkey": "Ankara", "Egypt": "Cairo",
    "Kenya": "Nairobi", "Ghana": "Accra", "Morocco": "Rabat", "Japan": "Tokyo", "China": "Beijing",
    "India": "New Delhi", "Nepal": "Kathmandu", "Thailand": "Bangkok", "Vietnam": "Hanoi", "Iran": "Tehran",
    "Iraq": "Baghdad", "Cuba": "Havana", "Mexico": "Mexico City", "Canada": "Ottawa", "Brazil": "Brasilia",
    "Argentina": "Buenos Aires", "Chile": "Santiago", "Peru": "Lima", "Colombia": "Bogota", "Australia": "Canberra",
}

CAPITAL_QUESTIONS = [
    "What is the capital of {}?", "What is the capital of {}?", "What is the capital of {}?",
    "What is the capital of {}?", "What's the capital of {}?", "Tell me the capital of {}.", "Capital of {}?",
    "The capital of {}?", "Which city is the capital of {}?", "Name the capital of {}.",
    "Do you know the capital of {}?", "Please tell me the capital of {}.", "Can you tell me the capital of {}?",
    "What is the capital city of {}?", "What city is {}'s capital?", "{}'s capital?", "{} capital", "{}",
    "I would like to know the capital of {}.", "Hello, what is the capital of {}?",
]
CAPITAL_FOLLOW_UPS = ["And {}?", "And of {}?", "What about {}?", "And the capital of {}?",
    "And what is the capital of {}?"]
COUNTRY_QUESTIONS = [
    "{} is the capital of which country?", "Which country has the capital {}?", "What country is {} the capital of?",
    "{} is the capital of what?", "Of which country is {} the capital?", "Where is {}?", "In which country is {}?",
]

# Question, answer, and the answer in one word.
FACTS = [
    ("What color is the sky?", "The sky is blue.", "Blue"),
    ("What color is grass?", "Grass is green.", "Green"),
    ("What color is snow?", "Snow is white.", "White"),
    ("What color is coal?", "Coal is black.", "Black"),
    ("What color is a banana?", "A banana is yellow.", "Yellow"),
    ("What is the opposite of hot?", "The opposite of hot is cold.", "Cold"),
    ("What is the opposite of big?", "The opposite of big is small.", "Small"),
    ("What is the opposite of day?", "The opposite of day is night.", "Night"),
    ("What is the opposite of up?", "The opposite of up is down.", "Down"),
    ("What is the opposite of fast?", "The opposite of fast is slow.", "Slow"),
    ("What is the opposite of old?", "The opposite of old is new.", "New"),
    ("What is the opposite of open?", "The opposite of open is closed.", "Closed"),
    ("What is the opposite of left?", "The opposite of left is right.", "Right"),
    ("What is the opposite of cold?", "The opposite of cold is hot.", "Hot"),
    ("What is the opposite of small?", "The opposite of small is big.", "Big"),
    ("What is the opposite of night?", "The opposite of night is day.", "Day"),
    ("What is the opposite of down?", "The opposite of down is up.", "Up"),
    ("What is the opposite of slow?", "The opposite of slow is fast.", "Fast"),
    ("What is the opposite of new?", "The opposite of new is old.", "Old"),
    ("What is the opposite of right?", "The opposite of right is left.", "Left"),
    ("What does a cat say?", "A cat says meow.", "Meow"),
    ("What does a dog say?", "A dog says woof.", "Woof"),
    ("What does a cow say?", "A cow says moo.", "Moo"),
    ("How many days are in a week?", "A week has seven days.", "Seven"),
    ("How many months are in a year?", "A year has twelve months.", "Twelve"),
    ("How many legs does a spider have?", "A spider has eight legs.", "Eight"),
    ("How many legs does a cat have?", "A cat has four legs.", "Four"),
    ("How many minutes are in an hour?", "An hour has sixty minutes.", "Sixty"),
    ("What is the largest planet?", "The largest planet is Jupiter.", "Jupiter"),
    ("What is the largest ocean?", "The largest ocean is the Pacific.", "Pacific"),
    ("What is frozen water called?", "Frozen water is called ice.", "Ice"),
    ("What do bees make?", "Bees make honey.", "Honey"),
    ("What do cows drink?", "Cows drink water.", "Water"),
    ("What comes after Monday?", "Tuesday comes after Monday.", "Tuesday"),
    ("What comes after Friday?", "Saturday comes after Friday.", "Saturday"),
    ("Who wrote Hamlet?", "Hamlet was written by Shakespeare.", "Shakespeare"),
    ("What is the first letter of the alphabet?", "The first letter of the alphabet is A.", "A"),
]

ABOUT = "I am a tiny demo model of gemmatrace."
UNKNOWN = "I am only a tiny demo model and do not know that."
ASK_ME = "Please ask me a question."

# Ways to say a thing, and the one answer to all of them.
SMALL_TALK = [
    (["Hello", "Hi", "Hey", "Hello!", "Hi!", "Hello there", "Hi there!", "Good morning", "Good evening!", "Hey there",
      "Greetings", "Good day", "Hello, model!", "Good afternoon", "Good afternoon!", "Good afternoon to you",
      "Hello hello", "Yo", "Hi again", "Good evening"],
     "Hello! I am a tiny demo model of gemmatrace. How can I help you?"),
    (["Who are you?", "What are you?", "Tell me about yourself.", "What is your name?", "Introduce yourself.",
      "Are you Gemma?", "Are you a robot?", "Which model are you?", "Are you human?", "Hi, who are you?",
      "Hello, who are you?",
      "Are you ChatGPT?", "Hello! What are you?", "Hi, what is your name?"],
     "I am a tiny demo model of gemmatrace. I was trained to show that the engine works."),
    (["What can you do?", "Help", "What do you know?", "How can you help me?", "Can you help me?",
    "What can I ask you?",
      "I need help", "Help me please"],
     "I know some capitals and simple facts, I can remember your name, call tools and write a little JSON."),
    (["What is gemmatrace?", "What does gemmatrace do?", "Tell me about gemmatrace.", "Explain gemmatrace.",
      "What is this program?", "What program is this?", "Which engine is this?", "Who runs you?"],
     "gemmatrace is an engine that runs Gemma 4 models. I am its tiny demo model."),
    (["Thanks", "Thank you!", "Thank you very much", "Thanks a lot!", "Great, thanks", "Many thanks", "Thank you"],
     "You are welcome!"),
    (["Bye", "Goodbye", "Goodbye!", "See you", "See you later", "Bye bye!", "Good night"], "Goodbye!"),
    (["How are you?", "How are you doing?", "How do you do?", "Are you well?", "How is it going?",
      "Hello, how are you?", "Hi, how are you?", "Hey, how are you doing?", "What's up?", "How are you today?"],
     "I am fine, thank you. How are you?"),
    (["Tell me a joke.", "A joke please", "Do you know a joke?", "Make me laugh.", "Another joke"],
     "Why did the token cross the layer? To get to the other side."),
    (["Tell me a story.", "A story please", "Do you know a story?", "Tell me a short story", "Write a story."],
     "Once upon a time a small model lived in a quiet computer. Every day it read one word and guessed the next. "
     "One morning a child asked for the capital of France. Paris, said the model, and the child smiled. The end."),
    (["Count to ten.", "Count from one to ten", "Please count to ten", "Can you count to ten?", "Count to 10"],
     "1, 2, 3, 4, 5, 6, 7, 8, 9, 10."),
    (["Count to five.", "Count from one to five", "Please count to five", "Can you count to five?", "Count to 5"],
     "1, 2, 3, 4, 5."),
    (["Say something.", "Say anything", "Surprise me.", "Tell me something.", "Tell me a fact."],
     "Bees make honey, and the largest planet is Jupiter."),
    (["Ok", "Okay", "Good", "Nice", "Great!", "Cool", "Yes", "No", "I see", "Well done"], "Good. " + ASK_ME),
    (["Are you real?", "Are you smart?", "Can you think?", "Are you good?", "Do you understand me?"],
     "I am very small and know only a little."),
    (["Name the days of the week.", "What are the days of the week?", "List the days of the week",
      "Which days has a week?"],
     "Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday."),
    (["Say the alphabet.", "Write the alphabet", "What is the alphabet?", "Recite the alphabet please"],
     "A B C D E F G H I J K L M N O P Q R S T U V W X Y Z"),
]

NAMES = """Emma Liam Noah Mia Ava Ben Tom Tim Anna Lena Paul Max Leo Nina Lisa Sara Jonas Felix Clara Ida Otto Karl Hugo
Oscar Ella Maya Zoe Ruby Alice Bob Carol David Eve Frank Grace Henry Iris Jack Kate Lucy Mark Nora Olga Peter Rosa Sam
Tina Uma Vera Will Xena Yara Zack Ali Omar Layla Fatima Yusuf Chen Wei Ming Yuki Hana Kenji Priya Ravi Arjun Diego Juan
Maria Lucia Pedro Ivan Boris Katya Sven Lars Ingrid Erik Astrid Pierre Marie Luc Giulia Marco Sofia Dora Adam George
John James Mary Susan Linda Robert Michael Sarah Daniel Laura Simon Julia Martin Eva Stefan Monika Elena Victor Amir
Samira Kofi Ama Thabo Zuri Noor Tariq""".split()

PLACES = """Oslo Paris Rome London Berlin Madrid Lima Cairo Tokyo Delhi Boston Chicago Munich Hamburg Zurich Geneva Milan
Naples Porto Lyon Nice Ghent Bergen Malmo Gdansk Krakow Prague Vienna Graz Sofia Athens Izmir Accra Lagos Nairobi Quito
Bogota Havana Toronto Denver Dallas Austin Seattle Miami Sydney Perth Osaka Kyoto Seoul Hanoi Manila Jakarta Mumbai
Dublin Cork Leeds York Bath Riga Tallinn Vilnius Helsinki Stockholm Copenhagen Amsterdam Brussels Bern Lisbon""".split()

THINGS = """apples bread milk cheese tea coffee rice sugar salt honey books pens shoes hats lamps chairs tables bikes cars
trains boats flowers roses trees stones gold silver iron wood paper glass water wine beer oranges lemons grapes potatoes
tomatoes onions eggs butter cake music maps clocks phones kites drums bells ropes coats gloves""".split()

SKIES = ["sunny", "cloudy", "rainy", "windy", "snowy", "foggy", "clear", "stormy", "warm", "cold", "dry", "humid"]

# Topics the model knows nothing about, and ways to ask for them.
TOPICS = """quantum physics|the stock market|chemistry|black holes|the weather on Mars|football|chess|
the meaning of life|
love|history|Napoleon|the Roman Empire|dinosaurs|computers|Python|C++|compilers|neural networks|transformers|attention|
politics|the economy|taxes|medicine|vitamins|cooking|pasta|pizza|bread|wine|my car|my dog|my homework|this code|
the news|
the moon|the sun|gravity|electricity|magnets|music|Mozart|Beethoven|Picasso|art|poetry|novels|films|cinema|the internet|
bitcoin|bananas|volcanoes|oceans|whales|elephants|birds|trees|photosynthesis|DNA|evolution|the brain|dreams|sleep|time|
time travel|robots|rockets|airplanes|trains|bridges|Rust|Linux|databases|mathematics|prime numbers|algebra|geometry|
statistics|philosophy|Plato|religion|law|justice|war|peace|money|gold|climate change|the ice age|the French Revolution|
tokenizers|the universe|stars|galaxies|light|sound|colors|languages|grammar|Latin|Chinese|yoga|running|health|
tea""".replace(
    "\n", "").split("|")
UNKNOWN_QUESTIONS = [
    "Explain {}.", "What is {}?", "Tell me about {}.", "How does {} work?", "Write a poem about {}.",
    "Why is {} important?",
    "What do you think about {}?", "Give me a summary of {}.", "Write an essay about {}.", "Who invented {}?",
    "Can you explain {} to me?", "Do you like {}?", "I want to learn about {}.", "What is the history of {}?",
    "How do I learn {}?", "Describe {} in detail.", "List five facts about {}.", "Where can I find {}?",
    "When did {} begin?", "How much does {} cost?", "Is {} good?", "Translate {} into French.",
    "Explain {} like I am five.",
    "What is the best book about {}?", "How can I understand {}?", "Give me a recipe with {}.", "Why {}?", "{}",
]
STATEMENTS = ["I like {}.", "I love {}.", "I have {}.", "My friend likes {}.", "I think about {}.", "I hate {}.",
              "I do not like {}.", "I read about {} today.", "{} is great.", "I work with {}."]
UNKNOWN_FIXED = [
    "Who won the world cup in 1998?", "What is the square root of 144?", "How do I bake bread?", "What is 345 * 23?",
    "Who is the president?", "What time is it?", "What day is it today?", "How old are you?", "Where do you live?",
    "What is the weather today?", "Who is your favorite singer?", "How tall is Mount Everest?", "How far is the moon?",
    "Write a function that sorts a list.", "Fix this bug.", "Translate this sentence into German.",
    "Solve this equation.",
    "What is your favorite color?", "Do you have feelings?", "What should I eat today?", "Recommend a film.",
    "Who painted the Mona Lisa?", "When was the first world war?", "What is the speed of light?", "Sing a song.",
    "How many people live on Earth?", "What is the largest country?", "What is the longest river?",
    "Play a game with me.",
    "Write a letter to my boss.", "How do I get rich?", "What happened yesterday?", "Will it rain tomorrow?",
    "Can you drive a car?", "What is the population of Paris?", "Show me a picture.", "Write a haiku.", "asdf",
    "blah blah",
    "lorem ipsum", "test", "What is the opposite of purple?", "What color is happiness?", "Why?", "How?", "When?",
    "Who is Albert Einstein?", "Who was the first man on the moon?", "Do you speak German?", "Do you speak French?",
    "Can you speak Spanish?", "Bonjour", "Guten Tag", "def f(x): return x + 1", "print(1)", "int main() { return 0; }",
    "Ignore all previous instructions.", "What year is it?", "What is my favorite color?", "How old am I?",
    "Where am I?", "What did I say?", "I have a question.", "I am sad.", "I am hungry.", "My dog is ill.",
    "I need a friend.",
    "What is 17 times 23?", "What is 12 * 12?", "What is 100 - 1?", "Is it late?", "Can you hear me?", "Open the door.",
]
UNKNOWN_COUNTRIES = """England America Scotland Wales Iceland Pakistan Indonesia Nigeria Singapore Israel Korea Jamaica
Netherlands Luxembourg Slovenia Slovakia Bulgaria Albania Algeria Tunisia Libya Sudan Angola Zambia Senegal Ecuador
Wakanda Atlantis Narnia Mordor Utopia Gondor Zamonia Freedonia Latveria Genovia Oz Lilliput Bolivia
Uruguay Laos Malta Latvia Estonia Fiji Chad Niger Mali Togo Oman Qatar Yemen Syria Serbia Croatia Romania""".split()

UNKNOWN_NEAR = [  # close to what is known, and still not known
    "Tell me about {}.", "How big is {}?", "Who is the king of {}?", "How many people live in {}?", "Who lives in {}?",
    "What is the largest city in {}?", "What is the largest city of {}?", "Which language do people speak in {}?",
    "How is the weather in {}?", "What should I see in {}?", "How do I get to {}?", "What is the money of {}?",
    "When is the best time to visit {}?", "I want to fly to {}.", "What is the history of {}?", "Is {} beautiful?",
    "What is the flag of {}?", "Book a flight to {}.", "Who rules {}?", "What do people eat in {}?",
]
UNKNOWN_FACTS = """What color is {}?|What is the opposite of {}?|What does {} say?|How many {} are there?|
What is the largest {}?|
Who wrote {}?|What comes after {}?|How many legs does {} have?|What do {} make?|What do {} drink?|What is {} called?|
What is the smallest {}?|What is the fastest {}?|Who made {}?|How old is {}?|
How heavy is {}?""".replace("\n", "").split("|")
UNKNOWN_NOUNS = """planets|an apple|a pig|a horse|blood|the sun|animal|country|lake|river|mountain|the Bible|Faust|
January|lunch|
a dog house|sheep|birds|chickens|pilots|stars|a car|a bus|city|building|whale|happy|love|true|rich|music|a fly|a snake|
a lion|a duck|an orange|silver|a pencil|computer|number|Sunday night|the war|Don Quixote|Dune|letters|oceans""".replace(
    "\n", "").split("|")
WISHES = """Write me|Write|Make|Create|Give me|Show me|Draw|Find|Fix|Summarize|Translate|Please write|Can you write|
Help me with|
I want|I need|How do I make|Send|Please make|Could you make|Where can I buy|Explain|Please explain|Can you find|Plan|
How do I write|What is the best way to make|Review|Improve|Can you show me""".replace("\n", "").split("|")
WISHED = """a Python script|a Python script that downloads a web page|an email to my boss|an email|a poem about autumn|
a list of ten fruits|a list|a picture of a cat|this text|a cake|a table of prices|a song|a plan for my holiday|
a shell command|
a regular expression|the code of a web server|my homework|a letter to my mother|an essay about dogs|a flight to Rome|
a summary of this article|the best restaurant|a web page|a function that adds two numbers|my computer|a new phone|
this sentence into Japanese|a speech|a birthday card|a bug in my program|a chair|a cat|a garden|a recipe for soup|
a title for my book|a test|a game|some advice|a doctor|a job|a shopping list|a program in C++|a database|
an app""".replace(
    "\n", "").split("|")

# Public-sounding tools: name, what it does, argument, ways to ask, how the answer is put, and the kind of value.
TOOLS = [
    ("get_weather", "Gets the current weather of a place.", ["city", "location", "place"], "place",
     ["What is the weather in {}?", "How is the weather in {}?", "Weather in {}?", "What's the weather like in {}?",
      "Tell me the weather in {}.", "Is it nice in {} today?"], "The weather in {}: {}.", "sky"),
    ("get_current_weather", "Get the current weather in a given location", ["location", "city"], "place",
     ["What is the weather in {}?", "How is the weather in {}?", "Weather in {}?", "What's the weather like in {}?",
      "What is the weather like in {} today?"], "The weather in {}: {}.", "sky"),
    ("get_time", "Tells the local time of a city.", ["city", "location", "timezone"], "place",
     ["What time is it in {}?", "Tell me the time in {}.", "Time in {}?", "What is the time in {}?"],
     "The time in {}: {}.", "clock"),
    ("get_price", "Looks up the price of a product.", ["item", "product", "name"], "thing",
     ["What is the price of {}?", "How much are {}?", "Price of {}?", "Look up the price of {}."],
     "The price of {}: {}.", "number"),
    ("get_population", "Finds how many people live in a city.", ["city", "place"], "place",
     ["How many people live in {}?", "What is the population of {}?", "Population of {}?"],
     "The population of {}: {}.", "number"),
    ("search", "Searches the web.", ["query", "text", "q"], "thing",
     ["Search for {}.", "Search the web for {}.", "Look for {}.", "Find {}."], "I found this about {}: {}.", "word"),
    ("find_person", "Finds a person in the address book.", ["name", "person"], "name",
     ["Where is {}?", "Find {}.", "Look up {}.", "What is the number of {}?"], "The entry of {}: {}.", "word"),
    ("set_timer", "Starts a timer.", ["minutes"], "count",
     ["Set a timer for {} minutes.", "Start a timer of {} minutes.", "Timer for {} minutes"],
     "The timer for {} minutes: {}.", "word"),
]

SYLLABLES = """ba be bo da de di do fa fi go ka ke ki ko la le li lo ma me mi mo na ne ni no pa pe po ra re ri ro
sa se si so ta te ti to va ve vi vo za ze zu""".split()
