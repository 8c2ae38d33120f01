"""PS-DSF: Khamse-Ashari, Lambadaris, Kesidis, Urgaonkar and Zhao 2017."""
